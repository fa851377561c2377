"""A real server on a real port, in a thread of the test process; its worker is a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx

from foretoken.config import EngineConfig, ModelConfig
from foretoken.server.run import Server, listen
from foretoken.server.settings import ServerSettings

TIMEOUT = 30.0


class RunningServer:
    """Started and loaded; `url` is where it answers."""

    def __init__(self, engine: EngineConfig, settings: ServerSettings, port: int = 0) -> None:
        self._listener = listen(ServerSettings(port=port))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._engine, self._settings = engine, settings
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.server: Server | None = None
        self.loop: asyncio.AbstractEventLoop | None = None
        self.error: BaseException | None = None

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            self.server = Server(self._engine, self._settings)
            await self.server.run(self._listener)

        try:
            asyncio.run(main())
        except BaseException as error:
            self.error = error

    def start(self) -> None:
        self._thread.start()
        wait_until(lambda: self.error is not None or self.healthy(), "the server to be ready")
        if self.error is not None:
            raise self.error

    def healthy(self) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{self.url}/health", timeout=TIMEOUT).status_code == 200
        return False

    def on_loop(self, function: Callable[[], object]) -> None:
        assert self.loop is not None
        self.loop.call_soon_threadsafe(function)

    @property
    def worker(self):  # type: ignore[no-untyped-def]
        assert self.server is not None
        return self.server.service.worker

    def idle(self) -> bool:
        """Whether no slot is busy and nobody waits."""
        slots = httpx.get(f"{self.url}/slots", timeout=TIMEOUT).json()
        return not any(slot["is_processing"] for slot in slots) and not self.worker.n_waiting

    def stop(self) -> None:
        if self.server is not None and self._thread.is_alive():
            self.on_loop(self.server.stop)
        self._thread.join(TIMEOUT)
        self._listener.close()
        assert not self._thread.is_alive(), "the server does not stop"


def wait_until(condition: Callable[[], bool], what: str, seconds: float = TIMEOUT) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def running(
    path: Path, settings: ServerSettings | None = None, port: int = 0, **engine: object
) -> Iterator[RunningServer]:
    """A server over a tiny model: two slots, one thread."""
    values = {"n_parallel": 2, "n_ctx": 512, "n_threads": 1, **engine}
    config = EngineConfig(ModelConfig(path), **values)  # type: ignore[arg-type]
    server = RunningServer(config, settings or ServerSettings(grace=5), port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
