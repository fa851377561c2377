"""`ngram-map-k` and `ngram-map-k4v`: n-gram keys that remember how their drafts fared."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from foretoken.speculation.base import Verdict
from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter, decided, follow, gram_hashes
from foretoken.types import Token


@dataclass(slots=True)
class _KeyReading(Reading):
    latest: dict[int, int] = field(default_factory=dict)
    """Hash of a key → where it last ended."""
    hits: dict[int, int] = field(default_factory=dict)
    """Hash of a key → how often it occurred, for keys that occurred more than once."""
    limits: dict[int, int] = field(default_factory=dict)
    """Hash of a key → the longest draft that its history justifies, once it has one."""
    drafted: int | None = None
    """The key of the draft that awaits its verdict."""


K = TypeVar("K", bound=_KeyReading)


class _NgramMap(TextDrafter[K]):
    """Keys of `size_n` tokens, drafts of at most `size_m`, shortened by what was refused."""

    def __init__(self, *, size_n: int = 12, size_m: int = 48, min_hits: int = 1) -> None:
        super().__init__()
        if size_n < 1 or size_m < 1 or min_hits < 1:
            raise ValueError("size_n, size_m and min_hits must be at least 1")
        self.size_n = size_n
        self.size_m = size_m
        self.min_hits = min_hits

    def _key(self, tokens: Sequence[Token]) -> tuple[Token, ...] | None:
        """The key that the sequence ends with."""
        return tuple(tokens[-self.size_n :]) if len(tokens) > self.size_n else None

    def _copy(self, reading: K, key: int, tokens: Sequence[Token], at: int, n_max: int, sure: float) -> Guess:
        """What follows `at`, as far as the key's history allows."""
        limit = reading.limits.get(key, self.size_m)
        copied = follow(tokens, at, min(n_max, limit))
        reading.drafted = key
        return copied, decided(sure if limit == self.size_m else sure * 0.7, len(copied))

    def _learn(self, reading: K, verdict: Verdict) -> None:
        key, reading.drafted = reading.drafted, None
        if key is None or not verdict.draft.tokens:
            return
        if verdict.n_accepted < len(verdict.draft):
            # One token stays allowed: a key that is silent could never prove itself again.
            reading.limits[key] = max(1, verdict.n_accepted)
        elif key in reading.limits:
            grown = max(reading.limits[key], 2 * verdict.n_accepted)
            reading.limits[key] = min(self.size_m, grown)

    def _size(self, reading: K) -> int:
        tables = (reading.latest, reading.hits, reading.limits)
        return sum(map(sys.getsizeof, tables)) + 60 * len(reading.latest)


class NgramMapKDrafter(_NgramMap[_KeyReading]):
    """Drafts what followed the key's last occurrence, once the key occurred `min_hits` times."""

    name = "ngram-map-k"

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _KeyReading:
        return _KeyReading(owner)

    def _read(self, reading: _KeyReading, tokens: Sequence[Token]) -> None:
        latest, hits = reading.latest, reading.hits
        first = max(reading.n_read, self.size_n)
        for at, key in enumerate(gram_hashes(tokens, self.size_n, first, len(tokens)), first):
            if key in latest:
                hits[key] = hits.get(key, 1) + 1
            latest[key] = at

    def _guess(self, reading: _KeyReading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        reading.drafted = None
        grams = self._key(tokens)
        if grams is None:
            return None
        key = hash(grams)
        at = reading.latest.get(key)
        if at is None or tuple(tokens[at - self.size_n : at]) != grams:
            return None
        hits = reading.hits.get(key, 1)
        if hits < self.min_hits:
            return None
        return self._copy(reading, key, tokens, at, n_max, 1 - 1 / (self.size_n + hits))


@dataclass(slots=True)
class _ValueReading(_KeyReading):
    n_valued: int = 0
    """Keys that end before this position have had their values counted."""
    values: dict[int, list[list[int]]] = field(default_factory=dict)
    """Hash of a key → up to four [where the value last stood, how often], for keys with several."""


class NgramMapK4vDrafter(_NgramMap[_ValueReading]):
    """Keeps up to four continuations of each key and drafts the one that dominates the others."""

    name = "ngram-map-k4v"
    MAX_VALUES = 4
    DOMINANCE = 2

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _ValueReading:
        return _ValueReading(owner)

    def _read(self, reading: _ValueReading, tokens: Sequence[Token]) -> None:
        latest = reading.latest
        first = max(reading.n_valued, self.size_n)
        last = len(tokens) - self.size_m + 1
        for at, key in enumerate(gram_hashes(tokens, self.size_n, first, last), first):
            if key in latest:
                self._count(reading, tokens, key, at)
            latest[key] = at
        reading.n_valued = max(first, last)

    def _count(self, reading: _ValueReading, tokens: Sequence[Token], key: int, at: int) -> None:
        """One more occurrence of a known key, with a known or a new value at `at`."""
        m = self.size_m
        values = reading.values.setdefault(key, [[reading.latest[key], 1]])
        value = tokens[at : at + m]
        for known in values:
            if tokens[known[0] : known[0] + m] == value:
                known[0] = at
                known[1] += 1
                return
        if len(values) == self.MAX_VALUES:
            values.remove(min(values, key=lambda known: (known[1], known[0])))
        values.append([at, 1])

    def _guess(self, reading: _ValueReading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        reading.drafted = None
        grams = self._key(tokens)
        if grams is None:
            return None
        key = hash(grams)
        at = reading.latest.get(key)
        if at is None:
            return None
        counts = reading.values.get(key) or [[at, 1]]
        at, count = max(counts, key=lambda known: (known[1], known[0]))
        total = sum(known[1] for known in counts)
        others = total - count
        if total < self.min_hits or count < self.DOMINANCE * others:
            return None
        if tuple(tokens[at - self.size_n : at]) != grams:
            return None
        sure = (count + 0.5) / (total + 1) if others else 1 - 1 / (self.size_n + count)
        return self._copy(reading, key, tokens, at, n_max, sure)

    def _size(self, reading: _ValueReading) -> int:
        return super()._size(reading) + sys.getsizeof(reading.values) + 200 * len(reading.values)
