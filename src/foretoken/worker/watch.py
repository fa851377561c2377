"""Notices an engine whose thread is gone, and one that has been at the same step for far too long."""

from __future__ import annotations

import os
import threading

from foretoken.engine.calibration import time_rows
from foretoken.engine.engine import Engine
from foretoken.worker.messages import PULSE, Died, Pulse
from foretoken.worker.reporter import Reporter

_PER_ROW = 4.0
"""How many times longer than a row alone each row of a batch may take."""
_DEPTH = 1024
"""Every so many tokens before it a row may take as long again: it attends to all of them."""


class Watch:
    """Ends the process when its engine is dead or hangs: the supervisor starts another.

    How long a step may take depends on the model and on the step: a thousand rows of a large one on a small machine
    are many minutes, and nothing is wrong; behind tens of thousands of tokens they take many times longer still. So a
    row is timed once, alone and at the beginning, and the rest is reckoned from it.
    """

    def __init__(self, engine: Engine, reporter: Reporter, patience: float) -> None:
        self._engine = engine
        self._reporter = reporter
        self._patience = patience
        self._row_ms = engine.call(lambda loop: time_rows(loop.backend, loop.memory, 1))
        engine.call(lambda loop: loop.memory.release(0))

    def run(self) -> None:
        pause = threading.Event()
        while (fault := self._fault()) is None:
            self._reporter.send(Pulse())
            pause.wait(PULSE)
        self._reporter.send(Died(fault))
        self._reporter.finish()
        os._exit(1)

    def allowed(self, n_rows: int, depth: int) -> float:
        """Seconds that a step of so many rows may take, the last of them at such a depth."""
        return self._patience + _PER_ROW * n_rows * self._row_ms * (1 + depth / _DEPTH) / 1e3

    def _fault(self) -> str | None:
        if (reason := self._engine.failed) is not None:
            return reason
        seconds, n_rows, depth = self._engine.busy
        if seconds > self.allowed(n_rows, depth):
            return f"the engine hangs: a step of {n_rows} rows at depth {depth} is not over after {seconds:.0f} s"
        return None
