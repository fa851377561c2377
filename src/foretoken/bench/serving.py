"""Servers to measure: started for the measurement and stopped after it, or running already."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Protocol

import httpx

from foretoken.bench.wire import Address
from foretoken.config import DEFAULT_CONTEXT, EngineConfig
from foretoken.errors import ForetokenError
from foretoken.server import logs
from foretoken.server.run import serve
from foretoken.server.settings import ServerSettings

_HOST = "127.0.0.1"
_LOAD_SECONDS = 300.0
_END_SECONDS = 10.0


class Served(Protocol):
    """Something that answers while it is started."""

    @property
    def label(self) -> str: ...
    def started(self) -> AbstractContextManager[Address]: ...


@dataclass(frozen=True, slots=True)
class Ours:
    """`foretoken serve` with these settings, in processes of its own."""

    config: EngineConfig
    label: str = "foretoken"

    @contextmanager
    def started(self) -> Iterator[Address]:
        with self.running() as (address, _):
            yield address

    @contextmanager
    def running(self) -> Iterator[tuple[Address, Callable[[], None]]]:
        """The server's address, and a way to kill it as the machine's end would."""
        address = Address(_HOST, _free_port())
        settings = ServerSettings(host=address.host, port=address.port, grace=1.0)
        # Spawned: a forked copy of a process that has an engine would share its threads' locks.
        process = multiprocessing.get_context("spawn").Process(target=_serve, args=(self.config, settings))
        process.start()
        try:
            _wait(address, process.is_alive, self.label)
            yield address, lambda: _kill(process)
        finally:
            process.terminate()
            process.join(_END_SECONDS)


@dataclass(frozen=True, slots=True)
class LlamaServer:
    """llama.cpp's own server: the same file, slots, threads and context."""

    binary: Path
    config: EngineConfig
    arguments: tuple[str, ...] = ()
    label: str = "llama-server"

    @contextmanager
    def started(self) -> Iterator[Address]:
        address = Address(_HOST, _free_port())
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(self._command(address), stdout=said, stderr=said)
            try:
                _wait(address, lambda: process.poll() is None, self.label, said.fileno())
                yield address
            finally:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_END_SECONDS)
                process.kill()
                process.wait()

    def _command(self, address: Address) -> list[str]:
        config = self.config
        n_ctx = (config.n_ctx or DEFAULT_CONTEXT) * config.n_parallel
        flags = {
            "-m": config.model.path, "-c": n_ctx, "-np": config.n_parallel, "-t": config.n_threads,
            "-b": config.n_batch, "-ub": config.n_ubatch, "-ngl": max(config.model.n_gpu_layers, -1),
            "--host": address.host, "--port": address.port,
        }  # fmt: skip
        return [str(self.binary), *(str(part) for flag in flags.items() for part in flag), *self.arguments]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A server that is running already."""

    url: str
    label: str

    @contextmanager
    def started(self) -> Iterator[Address]:
        yield Address.of(self.url)


def _serve(config: EngineConfig, settings: ServerSettings) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # A line per request is part of what the server does; where it goes is not.
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        logs.set_up(as_json=False, verbose=False, stream=nowhere)
        serve(config, settings)


def _end_with_parent() -> None:
    """A benchmark that is killed must not leave a server behind; its worker ends with it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _kill(process: SpawnProcess) -> None:
    workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for worker in workers:
        os.kill(int(worker), signal.SIGKILL)
    process.kill()
    process.join(_END_SECONDS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(address: Address, alive: Callable[[], bool], label: str, log: int | None = None) -> None:
    url, end = f"http://{address.host}:{address.port}/health", time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < end:
        if not alive():
            raise ForetokenError(f"{label} did not start{_last_lines(log)}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, timeout=5.0).status_code == 200:
                return
        time.sleep(0.05)
    raise ForetokenError(f"{label} was not ready after {_LOAD_SECONDS:.0f} s")


def _last_lines(log: int | None) -> str:
    if log is None:
        return ""
    with open(log, "rb", closefd=False) as file:
        file.seek(0)
        return ": " + " / ".join(file.read().decode("utf-8", "replace").splitlines()[-3:])
