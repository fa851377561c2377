"""How much one owner may ask at the same time, and how long the others should wait."""

from __future__ import annotations

from collections import Counter

from foretoken.server.errors import ApiError

_LONGEST_WAIT = 120.0


class Streams:
    """Counts the requests of each owner that are being answered."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._running: Counter[str] = Counter()

    def enter(self, owner: str) -> None:
        if self._most is not None and self._running[owner] >= self._most:
            raise ApiError(
                429, f"{self._running[owner]} requests with this key are being answered already", retry_after=1
            )
        self._running[owner] += 1

    def leave(self, owner: str) -> None:
        self._running[owner] -= 1
        if self._running[owner] <= 0:
            del self._running[owner]


class Pace:
    """Learns how long answers take, to tell those who are turned away when to come back."""

    def __init__(self) -> None:
        self._seconds = 1.0

    def observe(self, seconds: float) -> None:
        self._seconds += (seconds - self._seconds) / 8

    def wait(self, n_waiting: int, n_slots: int) -> float:
        """Seconds until about half of those who wait have been answered."""
        return min(_LONGEST_WAIT, max(1.0, self._seconds * n_waiting / max(1, n_slots) / 2))
