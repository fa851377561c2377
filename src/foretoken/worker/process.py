"""One life of the worker process, seen from the server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import cast

from foretoken.worker import messages
from foretoken.worker.messages import Frames, Order, Ready, Report, Start

log = logging.getLogger("foretoken.worker")

_INPUT, _OUTPUT, _ERRORS = range(3)
_TAIL = 30
_END_SECONDS = 2.0
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_HINTS = {
    "SIGKILL": " (out of memory, or killed by hand)",
    "SIGILL": " (libllama was built for another processor, or miscompiled: build it anew, see docs/operations.md)",
}
_LIBRARY = "foretoken.libllama"
_WORDS_OF_DEATH = ("GGML_ASSERT", "ggml_abort", "error", "Error", "failed")


class StartFailed(Exception):
    """The worker did not become ready; the message says why."""


class Process(asyncio.SubprocessProtocol):
    """Owns the child process and the pipes to it.

    What the child says is heard inside the event loop's own callback: a task that reads would cost every
    token one more turn of the loop.
    """

    def __init__(self, on_report: Callable[[Report], None]) -> None:
        loop = asyncio.get_running_loop()
        self._on_report = on_report
        self._frames = Frames()
        self._tail: deque[str] = deque(maxlen=_TAIL)
        self._line = b""
        self._unsent: list[bytes] = []
        self._hearing = False
        self.heard: float | None = None
        """When the process said something last, if it ever did."""
        self._ready: asyncio.Future[Ready] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self._last_words: str | None = None
        self._transport: asyncio.SubprocessTransport | None = None
        self._orders: asyncio.WriteTransport | None = None

    @classmethod
    async def start(cls, order: Start, on_report: Callable[[Report], None]) -> Process:
        """Start a worker; await `ready` next."""
        _, process = await asyncio.get_running_loop().subprocess_exec(
            lambda: cls(on_report),
            # -P: what lies in the working directory is not ours to import.
            sys.executable, "-P", "-m", "foretoken.worker",
            start_new_session=True,
        )  # fmt: skip
        process.send(order)
        return process

    @property
    def pid(self) -> int:
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def ended(self) -> bool:
        return self._ended.done()

    def send(self, order: Order) -> None:
        """Give an order; a process that is already gone does not hear it."""
        self._unsent.append(messages.pack(order))
        if not self._hearing:
            self._flush()

    def _flush(self) -> None:
        assert self._orders is not None
        if self._unsent and not self._orders.is_closing():
            with contextlib.suppress(ConnectionError):
                self._orders.write(b"".join(self._unsent))
        self._unsent.clear()

    async def ready(self) -> Ready:
        """Wait until the model is loaded."""
        return await self._ready

    async def death(self) -> str:
        """Wait for the end of the process; returns the reason in words."""
        await asyncio.shield(self._ended)
        assert self._transport is not None
        return self._last_words or self._reason(self._transport.get_returncode() or 0)

    async def stop(self, grace: float) -> None:
        """End the process, by force if it does not listen."""
        self.send(messages.Stop())
        try:
            await asyncio.wait_for(asyncio.shield(self._ended), grace)
        except TimeoutError:
            self.kill()
            await asyncio.shield(self._ended)

    def kill(self, last_words: str | None = None) -> None:
        """End the process at once; `last_words` are the reason if it has said none."""
        self._last_words = self._last_words or last_words
        # The transport's own kill() may reap the child before asyncio waits for it, and then its end is unknown.
        if not self.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, _KILL)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._orders = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(_INPUT))

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _ERRORS:
            self._overhear(data)
            return
        # Orders that what is heard gives rise to, such as the next requests, go out together.
        self._hearing = True
        self.heard = asyncio.get_running_loop().time()
        try:
            for frame in self._frames.feed(data):
                self._hear(messages.read_report(frame))
        except Exception:
            log.exception("a report of the worker cannot be understood")
            self.kill()
        finally:
            self._hearing = False
            self._flush()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        # A process that closed its output is about to end; if not, it is of no use.
        if fd == _OUTPUT:
            asyncio.get_running_loop().call_later(_END_SECONDS, self.kill)

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, and everything it said was heard."""
        assert self._transport is not None
        self._transport.close()
        self._ended.set_result(None)
        if not self._ready.done():
            reason = self._last_words or self._reason(self._transport.get_returncode() or 0)
            self._ready.set_exception(StartFailed(f"the engine died while loading the model: {reason}"))

    def _hear(self, report: Report) -> None:
        if isinstance(report, Ready):
            self._ready.set_result(report)
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

    def _overhear(self, data: bytes) -> None:
        """Keep the last lines of what libraries print: after an abort they are the only reason there is."""
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines:
            if text := line.decode("utf-8", "replace").rstrip():
                self._tail.append(text)
                log.debug("%s", text)

    def _reason(self, code: int) -> str:
        said = next((line for word in _WORDS_OF_DEATH for line in self._tail if word in line), None)
        if code < 0:
            name = signal.Signals(-code).name if -code in signal.valid_signals() else f"signal {-code}"
            return name + _HINTS.get(name, "") + (f": {said}" if said else "")
        return f"exit code {code}" + (f": {said}" if said else "")
