"""How long to wait before a worker that died is started again, and when to give it up."""

from __future__ import annotations

_FIRST = 0.25
_LONGEST = 30.0
_HEALTHY_AFTER = 30.0
_MAX_FAILED_STARTS = 4


class Backoff:
    """Twice as long after every death in a row; a life of some length makes up for those before it."""

    def __init__(self) -> None:
        self._n_deaths = 0
        self._n_failed_starts = 0

    def lived(self, seconds: float) -> None:
        """The worker was ready, and died after some time."""
        self._n_failed_starts = 0
        self._n_deaths = 1 if seconds > _HEALTHY_AFTER else self._n_deaths + 1

    def not_started(self) -> None:
        """The worker died, or gave up, before it was ready."""
        self._n_failed_starts += 1
        self._n_deaths += 1

    @property
    def exhausted(self) -> bool:
        """Whether it failed to start so often in a row that trying again will not help."""
        return self._n_failed_starts >= _MAX_FAILED_STARTS

    @property
    def pause(self) -> float:
        """Seconds to wait."""
        return min(_FIRST * 2.0 ** min(self._n_deaths - 1, 16), _LONGEST)
