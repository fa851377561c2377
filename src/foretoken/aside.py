"""Work that no next token waits for: done while the device computes, or at once where nothing computes by itself."""

from __future__ import annotations

from collections.abc import Callable

Work = Callable[[], object]


class Aside:
    """Keeps work until there is time for it, in the order it came."""

    def __init__(self, later: bool) -> None:
        self._later = later
        self._waiting: list[Work] = []

    def do(self, work: Work) -> None:
        """Do it now, or leave it for the next `catch_up` where that costs less."""
        if self._later:
            self._waiting.append(work)
        else:
            work()

    def catch_up(self) -> None:
        """Do all that was left."""
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            work()


AT_ONCE = Aside(later=False)
