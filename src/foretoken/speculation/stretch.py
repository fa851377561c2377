"""A stretch of plain steps: what there is to know of them is how many there were, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping

from foretoken.speculation.planner import Step
from foretoken.types import SeqId


class Stretch:
    """Steps of the same slots, each with as many rows as before; of each it keeps two numbers and nothing else.

    Between two of them the model drives everything else out of the processor's cache: whatever they touched would have
    to be fetched again.
    """

    def __init__(self) -> None:
        self.rows: Mapping[SeqId, int] = {}
        self._ms: list[float] = []
        self._computing_ms: list[float | None] = []

    def __len__(self) -> int:
        return len(self._ms)

    def takes(self, step: Step) -> bool:
        """Take a plain step in if it is like those before."""
        if self._ms and step.rows != self.rows:
            return False
        if not self._ms:
            self.rows = step.rows
        self._ms.append(step.ms)
        self._computing_ms.append(step.computing_ms)
        return True

    @property
    def elapsed_ms(self) -> float:
        return sum(self._ms)

    def usual(self) -> tuple[float, float]:
        """What the middle one took, and how much of that beside computing, as far as that is known."""
        middle = sorted(range(len(self._ms)), key=self._ms.__getitem__)[len(self._ms) // 2]
        ms, computing_ms = self._ms[middle], self._computing_ms[middle]
        return ms, 0.0 if computing_ms is None else max(0.0, ms - computing_ms)

    def clear(self) -> None:
        self._ms.clear()
        self._computing_ms.clear()
