"""Bytes kept in one place under one budget, and who has to go when it is full."""

from __future__ import annotations

from collections.abc import Callable

from foretoken.cache.tree import Entry

WorthOf = Callable[[Entry], float]
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
        self._sizes: dict[Entry, int] = {}
        self._used: dict[Entry, float] = {}
        self._clock = 0.0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, entry: Entry, n_bytes: int) -> None:
        self._sizes[entry] = n_bytes
        self._used[entry] = self._clock
        self.n_bytes += n_bytes

    def touch(self, entry: Entry) -> None:
        if entry in self._used:
            self._used[entry] = self._clock

    def drop(self, entry: Entry) -> None:
        self.n_bytes -= self._sizes.pop(entry, 0)
        self._used.pop(entry, None)

    def victims(self, n_bytes: int, worth: float, worth_of: WorthOf, extra: int = 0) -> list[Entry] | None:
        """Who must go so that `n_bytes` fit; None when they cannot fit, or are worth less than who would have to go.

        `extra` bytes are held besides the entries.
        """
        missing = self.n_bytes + extra + n_bytes - self.budget
        if missing <= 0:
            return []
        limit = self._clock + worth / max(1, n_bytes)
        ranked = sorted(
            ((self._rank(entry, worth_of), entry) for entry in self._sizes if not entry.n_users),
            key=lambda pair: pair[0],
        )
        candidates = [(rank, entry) for rank, entry in ranked if rank <= limit]
        wanted = missing + (int(self.budget * _SLACK) if len(ranked) > _MANY else 0)
        gone: list[Entry] = []
        freed = 0
        for rank, entry in candidates:
            if freed >= wanted:
                break
            gone.append(entry)
            freed += self._sizes[entry]
            last = rank
        if freed < missing:
            return None
        self._clock = max(self._clock, last)
        self.n_evicted += len(gone)
        return gone

    def _rank(self, entry: Entry, worth_of: WorthOf) -> float:
        return self._used[entry] + worth_of(entry) / self._sizes[entry]
