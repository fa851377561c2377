"""A stretch of plain steps: what there is to know of them is how many there were, and how long they took."""

from __future__ import annotations

from collections.abc import Mapping

from foretoken.types import SeqId


class Stretch:
    """Steps of the same slots, each with as many rows as before; of each it keeps two numbers and nothing else.

    Between two of them the model drives everything else out of the processor's cache: whatever they touched would have
    to be fetched again.
    """

    __slots__ = ("computing_ms", "ms", "quiet", "rows")

    def __init__(self) -> None:
        self.rows: Mapping[SeqId, int] = {}
        self.ms: list[float] = []
        self.computing_ms: list[float | None] = []
        self.quiet = False
        """Whether nothing that was offered before is being compared with what is said meanwhile."""

    def add(self, rows: Mapping[SeqId, int], ms: float, computing_ms: float | None) -> None:
        """One more, with the same rows unless it is the first."""
        self.rows = rows
        self.ms.append(ms)
        self.computing_ms.append(computing_ms)

    def usual(self) -> tuple[float, float]:
        """What the middle one took, and how much of that beside computing, as far as that is known."""
        middle = sorted(range(len(self.ms)), key=self.ms.__getitem__)[len(self.ms) // 2]
        ms, computing_ms = self.ms[middle], self.computing_ms[middle]
        return ms, 0.0 if computing_ms is None else max(0.0, ms - computing_ms)

    def break_off(self) -> None:
        """Whatever comes next is not like what was before."""
        self.rows = {}

    def clear(self) -> None:
        self.ms.clear()
        self.computing_ms.clear()
