"""The worker's voice: reports go out at once, and nobody waits when the server is slow to listen."""

from __future__ import annotations

import logging
import os
import select
import threading

from foretoken.worker import messages
from foretoken.worker.messages import Report


class Reporter(logging.Handler):
    """Writes to the pipe from whatever thread has something to say.

    That costs the engine less than waking another thread would; only what the pipe does not take
    at once is left to one.
    """

    def __init__(self, output: int) -> None:
        super().__init__()
        os.set_blocking(output, False)
        self._output = output
        self._turn = threading.Lock()
        self._rest = bytearray()
        self._gathered: list[bytes] = []
        self._awaited = False
        self._more = threading.Event()
        threading.Thread(target=self._write_rest, name="foretoken-reports", daemon=True).start()

    def send(self, report: Report) -> None:
        self._send(messages.pack(report))

    def gather(self, report: Report, awaited: bool = False) -> None:
        """Keep a report until the step is over: what a step has to say is said at once. For the engine's thread.

        What is `awaited` goes out before the next step begins: a server on a core that computes may wait for it
        until the system's next tick, which can be as long as a step.
        """
        self._gathered.append(messages.pack(report))
        self._awaited |= awaited

    def flush(self) -> None:
        """Say what was gathered."""
        if self._gathered:
            data = b"".join(self._gathered)
            self._gathered.clear()
            self._send(data)
            if self._awaited:
                self._awaited = False
                os.sched_yield()

    def _send(self, data: bytes) -> None:
        with self._turn:
            if not self._rest:
                data = data[self._write(data) :]
            if data:
                self._rest += data
                self._more.set()

    def emit(self, record: logging.LogRecord) -> None:
        self.send(messages.Logged(record.levelno, record.name, self.format(record)))

    def finish(self, seconds: float = 5.0) -> None:
        """Wait until everything is written."""
        pause = threading.Event()
        for _ in range(round(seconds / 0.01)):
            if not self._rest:
                return
            pause.wait(0.01)

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._output, data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            # The server is gone: there is nobody to work for.
            os._exit(0)

    def _write_rest(self) -> None:
        while True:
            self._more.wait()
            select.select([], [self._output], [])
            with self._turn:
                del self._rest[: self._write(self._rest)]
                if not self._rest:
                    self._more.clear()
