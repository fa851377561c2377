"""Bytes kept in one place under one budget, and who has to go when it is full."""

from __future__ import annotations

from collections.abc import Callable

from foretoken.cache.tree import Entry

Worth = Callable[[Entry], float]
"""Tokens that would have to be read again without an entry."""

_MANY = 256
_SLACK = 1 / 16
"""Of the budget, freed beyond what is needed when there are many entries: one look at all of them serves longer."""


class Tier:
    """Evicts what is cheapest to compute again per byte, weighted by recency (GreedyDual-Size).

    An entry's rank is its worth per byte plus the clock at its last use; the clock is the rank of the last one that
    went, so whatever is not used falls behind.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.n_bytes = 0
        self.n_evicted = 0
        self._used: dict[Entry, float] = {}
        self._clock = 0.0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._used

    def __len__(self) -> int:
        return len(self._used)

    def add(self, entry: Entry) -> None:
        self._used[entry] = self._clock
        self.n_bytes += entry.n_bytes

    def touch(self, entry: Entry) -> None:
        if entry in self._used:
            self._used[entry] = self._clock

    def drop(self, entry: Entry) -> None:
        if self._used.pop(entry, None) is not None:
            self.n_bytes -= entry.n_bytes

    def victims(self, n_bytes: int, worth: float, worth_of: Worth, extra: int = 0) -> list[Entry] | None:
        """Who must go so that `n_bytes` fit; None when they cannot fit, or are worth less than who would have to go.

        `extra` bytes are held besides the entries.
        """
        missing = self.n_bytes + extra + n_bytes - self.budget
        if missing <= 0:
            return []
        if n_bytes + extra > self.budget:
            return None
        free = [(entry, used) for entry, used in self._used.items() if not entry.n_users]
        ranks = sorted(
            ((used + worth_of(entry) / entry.n_bytes, entry) for entry, used in free), key=lambda pair: pair[0]
        )
        wanted = missing + (int(self.budget * _SLACK) if len(ranks) > _MANY else 0)
        limit = self._clock + worth / max(1, n_bytes)
        gone: list[Entry] = []
        freed = 0
        for rank, entry in ranks:
            if freed >= wanted or (rank > limit and freed >= missing):
                break
            if rank > limit:
                return None
            gone.append(entry)
            freed += entry.n_bytes
            last = rank
        if freed < missing:
            return None
        self._clock = max(self._clock, last)
        self.n_evicted += len(gone)
        return gone
