"""One life of the worker process, seen from the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable

from foretoken.config import EngineConfig
from foretoken.worker import messages
from foretoken.worker.messages import Frames, Order, Properties, Report

log = logging.getLogger("foretoken.worker")

_READ_SIZE = 1 << 18
_TAIL = 30
_END_SECONDS = 2.0
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_LIBRARY = "foretoken.libllama"
_WORDS_OF_DEATH = ("GGML_ASSERT", "ggml_abort", "error", "Error", "failed")


class StartFailed(Exception):
    """The worker did not become ready; the message says why."""


class Process:
    """Owns the child process and the pipes to it."""

    def __init__(self, child: asyncio.subprocess.Process, on_report: Callable[[Report], None]) -> None:
        self._child = child
        self._on_report = on_report
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._ready: asyncio.Future[Properties] = asyncio.get_running_loop().create_future()
        self._last_words: str | None = None
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._overhear())]

    @classmethod
    async def start(cls, config: EngineConfig, on_report: Callable[[Report], None]) -> Process:
        """Start a worker; await `ready` next."""
        child = await asyncio.create_subprocess_exec(
            # -P: what lies in the working directory is not ours to import.
            sys.executable, "-P", "-m", "foretoken.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        process = cls(child, on_report)
        process.send(messages.Start(config, log.getEffectiveLevel()))
        return process

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def ended(self) -> bool:
        return self._child.returncode is not None

    def send(self, order: Order) -> None:
        """Give an order; a process that is already gone does not hear it."""
        assert self._child.stdin is not None
        if not self._child.stdin.is_closing():
            with contextlib.suppress(ConnectionError):
                self._child.stdin.write(messages.pack(order))

    async def ready(self) -> Properties:
        """Wait until the model is loaded."""
        death = asyncio.create_task(self.death())
        death.add_done_callback(self._died_early)
        try:
            return await self._ready
        finally:
            death.cancel()

    def _died_early(self, death: asyncio.Task[str]) -> None:
        if not death.cancelled() and not self._ready.done():
            reason = f"the engine died while loading the model: {death.result()}"
            self._ready.set_exception(StartFailed(reason))

    async def death(self) -> str:
        """Wait for the end of the process; returns the reason in words."""
        await asyncio.wait(self._tasks)
        code = await self._child.wait()
        return self._last_words or self._reason(code)

    async def stop(self, grace: float) -> None:
        """End the process, by force if it does not listen."""
        self.send(messages.Stop())
        try:
            await asyncio.wait_for(self._child.wait(), grace)
        except TimeoutError:
            self.kill()
            await self._child.wait()
        await asyncio.wait(self._tasks)

    def kill(self) -> None:
        # asyncio's own kill() may reap the child before asyncio waits for it, and then its end is unknown.
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._child.pid, _KILL)

    async def _listen(self) -> None:
        try:
            await self._hear_all()
        except Exception:
            log.exception("a report of the worker cannot be understood")
        # A process that closed its output is about to end; if not, it is of no use.
        try:
            await asyncio.wait_for(self._child.wait(), _END_SECONDS)
        except TimeoutError:
            self.kill()

    async def _hear_all(self) -> None:
        assert self._child.stdout is not None
        frames = Frames()
        while data := await self._child.stdout.read(_READ_SIZE):
            for frame in frames.feed(data):
                self._hear(messages.read_report(frame))

    def _hear(self, report: Report) -> None:
        if isinstance(report, messages.Ready):
            self._ready.set_result(report.properties)
        elif isinstance(report, messages.Refused):
            self._ready.set_exception(StartFailed(report.message))
        elif isinstance(report, messages.Died):
            self._last_words = report.message
        elif isinstance(report, messages.Logged):
            self._log(report)
        else:
            self._on_report(report)

    def _log(self, report: messages.Logged) -> None:
        # Why a model cannot be loaded is said once, in words, by whoever started this.
        early = report.logger == _LIBRARY and not self._ready.done()
        level = logging.DEBUG if early else report.level
        logging.getLogger(report.logger).log(level, "%s", report.text)

    async def _overhear(self) -> None:
        """Keep the last lines of what libraries print: after an abort they are the only reason there is."""
        assert self._child.stderr is not None
        async for line in _lines(self._child.stderr):
            self._tail.append(line)
            log.debug("%s", line)

    def _reason(self, code: int) -> str:
        said = next((line for word in _WORDS_OF_DEATH for line in self._tail if word in line), None)
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            hint = " (out of memory, or killed by hand)" if name == "SIGKILL" else ""
            return f"{name}{hint}" + (f": {said}" if said else "")
        return f"exit code {code}" + (f": {said}" if said else "")


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    rest = ""
    while data := await stream.read(4096):
        *lines, rest = (rest + data.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if line.strip():
                yield line.rstrip()
    if rest.strip():
        yield rest.rstrip()
