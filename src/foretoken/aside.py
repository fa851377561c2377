"""Work that no next token waits for: done while the device computes, or at once where nothing computes by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec

P = ParamSpec("P")


class Aside:
    """Keeps work until there is time for it, in the order it came."""

    def __init__(self, later: bool) -> None:
        self._later = later
        self._waiting: list[Callable[[], object]] = []

    def do(self, work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Do it now, or leave it for the next `catch_up` where that costs less."""
        if self._later:
            self._waiting.append(partial(work, *args, **kwargs))
        else:
            work(*args, **kwargs)

    def catch_up(self) -> None:
        """Do all that was left."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for work in waiting:
                work()


AT_ONCE = Aside(later=False)
