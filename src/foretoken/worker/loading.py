"""Watches an engine that is being loaded: says that it goes on, and ends what goes on no more."""

from __future__ import annotations

import logging
import os
import resource
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from foretoken.worker.messages import PULSE, Died, Pulse
from foretoken.worker.reporter import Reporter

log = logging.getLogger("foretoken.worker")

_SAY_EVERY = 15.0
_LEAST_CPU = 0.02
"""Seconds between two looks that are work; looking itself takes less."""


class Effort(NamedTuple):
    """What this process has done so far."""

    cpu: float
    """Seconds of all threads."""
    reads: int
    """Blocks read and pages fetched from files."""

    @classmethod
    def now(cls) -> Effort:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return cls(used.ru_utime + used.ru_stime, used.ru_inblock + used.ru_majflt)

    def since(self, before: Effort) -> bool:
        """Whether something was done meanwhile."""
        return self.cpu - before.cpu > _LEAST_CPU or self.reads > before.reads


class Loading:
    """How long loading takes depends on the file and the disk, so not the time is bounded but the time without effort:
    a process that neither computes nor reads waits for something that does not come.
    """

    def __init__(self, reporter: Reporter, patience: float, effort: Callable[[], Effort] = Effort.now) -> None:
        self._reporter = reporter
        self._patience = patience
        self._effort = effort
        self._over = threading.Event()

    def __enter__(self) -> Loading:
        threading.Thread(target=self._run, name="foretoken-loading", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _run(self) -> None:
        if (fault := self.watch()) is not None:
            self._reporter.send(Died(fault))
            self._reporter.finish()
            os._exit(1)

    def watch(self) -> str | None:
        """Look until loading is over; returns what is wrong with it, if something is."""
        started = busy = said = time.monotonic()
        before = self._effort()
        self._reporter.send(Pulse())
        while not self._over.wait(PULSE):
            self._reporter.send(Pulse())
            now, done = time.monotonic(), self._effort()
            if done.since(before):
                busy = now
            elif now - busy > self._patience:
                return f"the engine hangs: loading has neither computed nor read anything for {now - busy:.0f} s"
            before = done
            if now - said > _SAY_EVERY:
                said = now
                log.info("still loading after %.0f s (%.0f s of computing)", now - started, done.cpu)
        return None
