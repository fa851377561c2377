"""Where short runs of tokens stand in a text that no longer changes; a longer text's index grows out of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretoken.ids import Ids, ids_of, n_shared
from foretoken.types import Token

_BASE = 0x9E3779B97F4A7C15
_ALL = (1 << 64) - 1
_WORTH_KEEPING = 512
"""Tokens that are read as fast as looked for."""


class RunIndex:
    """The ends of all runs of some lengths, by what is in them."""

    def __init__(self, ids: Ids, sizes: Sequence[int], known: RunIndex | None = None, n_known: int = 0) -> None:
        """`known` is the index of a text whose first `n_known` tokens are those of this one."""
        self.ids = ids
        self.n_new = len(ids) - n_known
        """Tokens that were not taken over from another index."""
        self._runs: dict[int, _Runs] = {}
        for n in sizes:
            if n <= len(ids):
                before = known._runs.get(n) if known else None
                self._runs[n] = _Runs.sorted(ids, n) if before is None else before.grown(ids, n, n_known)

    def __len__(self) -> int:
        return len(self.ids)

    def ends(self, run: Sequence[Token]) -> Sequence[int]:
        """Where runs end that may be this one, in order; of its length there is an index, if the text is as long."""
        runs = self._runs.get(len(run))
        return () if runs is None else runs.find(run)

    def memory_bytes(self) -> int:
        """Roughly the bytes held."""
        return self.ids.nbytes + sum(len(runs.keys) * 12 for runs in self._runs.values())


class _Runs:
    """The hashes of all runs of one length, sorted, and for each where it ends; equal runs in order of place."""

    def __init__(self, keys: NDArray[np.uint64], ends: Ids) -> None:
        self._sorted = keys, ends
        # Looked up one by one: that is faster without numpy.
        self.keys: memoryview[Any] = keys.data
        self._ends: memoryview[Any] = ends.data

    @classmethod
    def sorted(cls, ids: Ids, n: int, first: int = 0) -> _Runs:
        """All runs of `n` that end behind the first so many tokens."""
        start = max(0, first + 1 - n)
        part = ids[start:].astype(np.uint64)
        keys = np.zeros(max(0, len(part) - n + 1), np.uint64)
        for j in range(n):
            keys = keys * np.uint64(_BASE) + part[j : j + len(keys)]
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], (order + start + n).astype(np.int32))

    def grown(self, ids: Ids, n: int, n_known: int) -> _Runs:
        """The runs of a text that begins with the first `n_known` tokens of this one."""
        keys, ends = self._sorted
        stays = ends <= n_known
        if not stays.all():
            keys, ends = keys[stays], ends[stays]
        new_keys, new_ends = _Runs.sorted(ids, n, n_known)._sorted
        # Behind those that are equal: what is new stands further back.
        at = np.searchsorted(keys, new_keys, side="right")
        return _Runs(np.insert(keys, at, new_keys), np.insert(ends, at, new_ends))

    def find(self, run: Sequence[Token]) -> Sequence[int]:
        key = 0
        for token in run:
            key = (key * _BASE + token) & _ALL
        low = bisect_left(self.keys, key)
        return self._ends[low : bisect_right(self.keys, key, low)]


class Shelf:
    """Indexes of texts read before, so that of a conversation that goes on only what is new need be read.

    What was read for one owner is never looked at for another.
    """

    def __init__(self, sizes: Sequence[int], max_texts: int = 16, max_tokens: int = 1 << 19) -> None:
        self._sizes = sizes
        self._max_texts = max_texts
        self._max_tokens = max_tokens
        self._kept: list[tuple[str, RunIndex]] = []
        """With their owners, the one used last at the end."""

    def read(self, owner: str | None, tokens: Sequence[Token]) -> RunIndex:
        """The index of a text; somebody unknown shares with nobody, and short texts are not worth keeping."""
        ids = ids_of(tokens)
        if owner is None or len(ids) < _WORTH_KEEPING:
            return RunIndex(ids, self._sizes)
        known, n_known = self._closest(owner, ids)
        if known is not None and n_known == len(known) == len(ids):
            index = known
        else:
            index = RunIndex(ids, self._sizes, known, n_known)
        # A text that goes on, or whose end has changed, takes the place of what it was.
        if known is not None and 2 * n_known >= len(known):
            self._kept = [kept for kept in self._kept if kept[1] is not known]
        self._kept.append((owner, index))
        while len(self._kept) > self._max_texts or self._n_tokens > self._max_tokens:
            del self._kept[0]
        return index

    def _closest(self, owner: str, ids: Ids) -> tuple[RunIndex | None, int]:
        """The index of the text that begins most like this one, and how much of it is the same."""
        found: tuple[RunIndex | None, int] = None, 0
        for whose, index in self._kept:
            if whose == owner and (n := n_shared(index.ids, ids)) > max(found[1], _WORTH_KEEPING):
                found = index, n
        return found

    @property
    def _n_tokens(self) -> int:
        return sum(len(index) for _, index in self._kept)

    def memory_bytes(self) -> int:
        """Roughly the bytes held."""
        return sum(index.memory_bytes() for _, index in self._kept)
