"""The text an answer may copy from: where runs of it stand near a place, and how rare its tokens are."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from foretoken.speculation.drafters.run_index import RunIndex
from foretoken.types import Token

SIZES = (8, 3, 1)
"""Lengths of the runs that can be looked up."""


class SourceIndex:
    """Finds the places nearest to given ones that end like a text does, and weighs tokens by rarity."""

    def __init__(self, runs: RunIndex) -> None:
        self.n_source = len(runs)
        self._runs = runs
        self._weights: dict[Token, float] = {}

    def weight(self, token: Token) -> float:
        """The log of how unlikely a token of the source is to stand at a place by chance."""
        if token not in self._weights:
            self._weights[token] = math.log(self.n_source / len(self._runs.ends((token,))))
        return self._weights[token]

    def near(self, tail: Sequence[Token], places: Iterable[int], n_ahead: int, n_behind: int) -> Iterator[int]:
        """Positions that the end of `tail` may have led to, by each run length the closest to each place."""
        places = list(places)
        for n in SIZES:
            ends = self._runs.ends(tail[-n:]) if len(tail) >= n else ()
            for place in places if ends else ():
                middle = bisect_left(ends, place)
                yield from ends[max(0, middle - n_behind) : middle + n_ahead]

    def memory_bytes(self) -> int:
        """Roughly the bytes held."""
        return self._runs.memory_bytes() + 150 * len(self._weights)
