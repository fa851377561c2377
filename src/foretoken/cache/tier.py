"""Bytes kept in one place under one budget, and who has to go when it is full."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

from foretoken.cache.tree import Entry

WorthOf = Callable[[Entry], float]
"""Tokens that would have to be read again without an entry."""

_MANY = 256
_SLACK = 1 / 16
"""Of the budget, freed beyond what is needed when there are many entries: one look at all of them serves longer."""


@dataclass(frozen=True, slots=True)
class Newcomer:
    """Something that wants room."""

    n_bytes: int
    worth: float = math.inf
    since: int | None = None
    """Whoever was used from this visit on stays; None spares nobody."""
    replaces: Collection[Entry] = ()
    """Who goes anyway once there is room."""


class Tier:
    """Evicts what is cheapest to compute again per byte, weighted by recency (GreedyDual-Size).

    An entry's rank is its worth per byte plus the clock at its last use; the clock is the rank of the last one that
    went, so whatever is not used falls behind.
    """

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.n_bytes = 0
        self.n_evicted = 0
        self.visit = 0
        """The number of the latest visit."""
        self._sizes: dict[Entry, int] = {}
        self._used: dict[Entry, tuple[float, int]] = {}
        """The clock and the visit at the last use."""
        self._clock = 0.0

    def __contains__(self, entry: Entry) -> bool:
        return entry in self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def add(self, entry: Entry, n_bytes: int) -> None:
        self._sizes[entry] = n_bytes
        self._used[entry] = self._clock, self.visit
        self.n_bytes += n_bytes

    def touch(self, entry: Entry) -> None:
        if entry in self._used:
            self._used[entry] = self._clock, self.visit

    def drop(self, entry: Entry) -> None:
        self.n_bytes -= self._sizes.pop(entry, 0)
        self._used.pop(entry, None)

    def victims(self, newcomer: Newcomer, worth_of: WorthOf, extra: int = 0) -> list[Entry] | None:
        """Who must go so that a newcomer fits; None when it cannot, or is worth less than who would have to go.

        `extra` bytes are held besides the entries.
        """
        replaced = sum(self._sizes.get(entry, 0) for entry in newcomer.replaces)
        missing = self.n_bytes + extra + newcomer.n_bytes - replaced - self.budget
        if missing <= 0:
            return []
        limit = self._clock + newcomer.worth / max(1, newcomer.n_bytes)
        free = [entry for entry in self._sizes if not entry.n_users and entry not in newcomer.replaces]
        ranked = sorted((self._standing(entry, worth_of, newcomer.since) for entry in free), key=lambda one: one[0])
        candidates = [(rank, entry) for rank, spared, entry in ranked if rank <= limit and not spared]
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

    def _standing(self, entry: Entry, worth_of: WorthOf, since: int | None) -> tuple[float, bool, Entry]:
        """An entry's rank, and whether it is spared: what nobody could use never is."""
        clock, visit = self._used[entry]
        worth = worth_of(entry)
        spared = since is not None and visit >= since and worth > 0
        return clock + worth / self._sizes[entry], spared, entry
