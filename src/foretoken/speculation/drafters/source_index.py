"""Where short runs of tokens stand in a text that no longer changes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from foretoken.types import Token

SIZES = (8, 3, 1)
"""Lengths of the runs that can be looked up."""
_BASE = 0x9E3779B97F4A7C15
_ALL = (1 << 64) - 1


class SourceIndex:
    """Finds the places nearest to given ones that end like a text does, and weighs tokens by rarity."""

    def __init__(self, source: Sequence[Token]) -> None:
        ids = np.asarray(source, dtype=np.uint64)
        self.n_source = len(source)
        self._runs = {n: _sorted_runs(ids, n) for n in SIZES if n <= len(source)}
        tokens, counts = np.unique(ids, return_counts=True)
        self.weights: dict[Token, float] = dict(
            zip(tokens.tolist(), np.log(len(source) / counts).tolist(), strict=True)
        )
        """Token → the log of how unlikely it is to stand at a place by chance."""

    def near(self, tail: Sequence[Token], places: Iterable[int], n_ahead: int, n_behind: int) -> Iterator[int]:
        """Positions that the end of `tail` may have led to, by each run length the closest to each place."""
        places = list(places)
        for n, (keys, ends) in self._runs.items():
            if len(tail) < n:
                continue
            key = 0
            for token in tail[-n:]:
                key = (key * _BASE + token) & _ALL
            low = bisect_left(keys, key)
            high = bisect_right(keys, key, low)
            for place in places if low < high else ():
                middle = bisect_left(ends, place, low, high)
                yield from ends[max(low, middle - n_behind) : min(high, middle + n_ahead)]

    def memory_bytes(self) -> int:
        """Roughly the bytes held."""
        return sum(keys.nbytes + ends.nbytes for keys, ends in self._runs.values()) + 150 * len(self.weights)


def _sorted_runs(ids: np.ndarray[Any, np.dtype[np.uint64]], n: int) -> tuple[memoryview, memoryview]:
    """The hashes of all runs of `n`, sorted, and for each where it ends; equal runs in order of place."""
    keys = np.zeros(len(ids) - n + 1, dtype=np.uint64)
    for j in range(n):
        keys = keys * np.uint64(_BASE) + ids[j : j + len(keys)]
    order = np.argsort(keys, kind="stable")
    return keys[order].data, (order + n).astype(np.int32).data
