"""`ngram-mod`: a rolling hash of the last tokens → the next one, in a pool of fixed size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from foretoken.speculation.base import Verdict
from foretoken.speculation.drafters.owners import Owners
from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter, decided
from foretoken.types import Token

_BASE = 0x9E3779B97F4A7C15
_ALL = (1 << 64) - 1
_LOW = (1 << 32) - 1
_BULK = 256
"""From this many new tokens on numpy is worth its overhead."""


class Pool:
    """Maps the hash of `n_match` tokens to the token that last followed them.

    An entry is the low half of the hash over the token plus one; the high half of the hash is its place.
    So a place that another n-gram took is recognised, and an empty one is 0.
    """

    def __init__(self, n_match: int, size: int) -> None:
        self.n_match = n_match
        self.n_used = 0
        self._table = np.zeros(size, dtype=np.uint64)
        self._cells = self._table.data
        self._shift = 64 - (size.bit_length() - 1)
        self._leave = pow(_BASE, n_match, 1 << 64)

    @property
    def occupancy(self) -> float:
        return self.n_used / len(self._table)

    @property
    def n_bytes(self) -> int:
        return self._table.nbytes

    def reset(self) -> None:
        """Forget everything."""
        self._table.fill(0)
        self.n_used = 0

    def hash_of(self, gram: Sequence[Token]) -> int:
        """The hash of `n_match` tokens."""
        key = 0
        for token in gram:
            key = (key * _BASE + token) & _ALL
        return key

    def add(self, key: int, tokens: Sequence[Token], first: int) -> int:
        """Learn `tokens[first:]`, where `key` hashes what stands before; the hash of the last tokens."""
        if len(tokens) - first >= _BULK:
            return self._add_many(tokens, first)
        cells, shift, leave, n = self._cells, self._shift, self._leave, self.n_match
        for old, token in zip(tokens[first - n :], tokens[first:], strict=False):
            place = key >> shift
            if not cells[place]:
                self.n_used += 1
            cells[place] = (key & _LOW) << 32 | (token + 1)
            key = (key * _BASE + token - old * leave) & _ALL
        return key

    def _add_many(self, tokens: Sequence[Token], first: int) -> int:
        n = self.n_match
        ids = np.asarray(tokens[first - n :], dtype=np.uint64)
        keys = np.zeros(len(tokens) - first, dtype=np.uint64)
        for j in range(n):
            keys = keys * np.uint64(_BASE) + ids[j : j + len(keys)]
        entries = keys << np.uint64(32) | (ids[n:] + np.uint64(1))
        self._table[keys >> np.uint64(self._shift)] = entries
        self.n_used = int(np.count_nonzero(self._table))
        return self.hash_of(tokens[-n:])

    def walk(self, key: int, gram: Sequence[Token], n_max: int) -> list[Token]:
        """What the pool says follows `gram`, whose hash is `key`, one token after the other."""
        cells, shift, leave = self._cells, self._shift, self._leave
        window = list(gram)
        for i in range(n_max):
            entry = cells[key >> shift]
            if not entry or entry >> 32 != key & _LOW:
                break
            token = (entry & _LOW) - 1
            key = (key * _BASE + token - window[i] * leave) & _ALL
            window.append(token)
        return window[len(gram) :]


@dataclass(slots=True)
class _Reading(Reading):
    pool: Pool = field(kw_only=True)
    key: int = 0
    """Hash of the last `n_match` tokens read."""
    n_low: int = 0
    """Drafts in a row that were mostly refused."""


class NgramModDrafter(TextDrafter[_Reading]):
    """Follows the pool of the owner as far as it knows the way, `n_min` to `n_max` tokens."""

    name = "ngram-mod"
    LOW_ACCEPTANCE = 0.25
    MAX_OCCUPANCY = 0.25

    def __init__(
        self,
        *,
        n_match: int = 24,
        n_min: int = 1,
        n_max: int = 64,
        pool_bits: int = 20,
        reset_after: int = 5,
        max_owners: int = 8,
    ) -> None:
        super().__init__()
        if n_match < 1 or n_max < 1 or not 8 <= pool_bits <= 28:
            raise ValueError("n_match and n_max must be at least 1, pool_bits between 8 and 28")
        self.n_match = n_match
        self.n_min = n_min
        self.n_max = n_max
        self.reset_after = reset_after
        self.pools = Owners(lambda: Pool(n_match, 1 << pool_bits), max_owners)

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _Reading:
        pool = self.pools.of(owner)
        if pool.occupancy > self.MAX_OCCUPANCY:
            pool.reset()
        return _Reading(owner, pool=pool)

    def _read(self, reading: _Reading, tokens: Sequence[Token]) -> None:
        n = self.n_match
        if len(tokens) < n:
            return
        if reading.n_read < n:
            reading.key = reading.pool.hash_of(tokens[:n])
        reading.key = reading.pool.add(reading.key, tokens, max(reading.n_read, n))

    def _guess(self, reading: _Reading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        if len(tokens) < self.n_match:
            return None
        n_max = min(n_max, self.n_max)
        found = reading.pool.walk(reading.key, tokens[-self.n_match :], n_max)
        if len(found) < min(self.n_min, n_max):
            return None
        return found, decided(0.95, len(found))

    def _learn(self, reading: _Reading, verdict: Verdict) -> None:
        if verdict.n_accepted >= self.LOW_ACCEPTANCE * len(verdict.draft):
            reading.n_low = 0
            return
        reading.n_low += 1
        if reading.n_low >= self.reset_after:
            reading.pool.reset()
            reading.n_low = 0

    def memory_bytes(self) -> int:
        """The bytes of all pools; pages never written to take none."""
        private = sum(reading.pool.n_bytes for reading in self._readings.values() if reading.owner is None)
        return private + sum(pool.n_bytes for pool in self.pools)
