"""Counts of short n-grams and the token that most often follows each; lives in memory or in a file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from foretoken.errors import ConfigError
from foretoken.types import Token

MAX_N = 4
_FACTORS = (0x1B873593CC, 0x1E3779B97F, 0x16A09E667F, 0x1510E527FB)
"""For the last token of an n-gram, the one before, and so on; small enough for keys to fit into 63 bits."""
_FOLLOWER = 0x13198A2E03
_TOKEN, _COUNT = 20, 22
_ONE_MORE = 1 << (_TOKEN + _COUNT) | 1 << _TOKEN
_TOKEN_MASK, _COUNT_MASK = (1 << _TOKEN) - 1, (1 << _COUNT) - 1


Demands = tuple[tuple[int, float, float], ...]
"""For n-grams of 1, 2, ... tokens: how often one must have occurred, the share that its follower must have,
and how often it is right when it occurred once and so had no rival."""


def gram_keys(context: Sequence[Token]) -> tuple[int, ...]:
    """The keys of the n-grams that `context`, at most `MAX_N` tokens, ends with, the shortest first."""
    if len(context) == MAX_N:
        # The usual case, written out: it is the larger part of the drafter's time.
        fourth, third, second, first = context
        one = (first + 1) * _FACTORS[0]
        two = one + (second + 1) * _FACTORS[1]
        three = two + (third + 1) * _FACTORS[2]
        return one, two, three, three + (fourth + 1) * _FACTORS[3]
    terms = ((token + 1) * factor for token, factor in zip(reversed(context), _FACTORS, strict=False))
    return tuple(accumulate(terms))


class GramTable:
    """For every n-gram seen: its most frequent follower, how often that one came, and how often any did."""

    def __init__(self) -> None:
        self._best: dict[int, int] = {}
        """Key → follower, its count and the count of all packed into one number."""
        self._others: dict[int, int] = {}
        """Key of an n-gram with a follower that is not its most frequent → how often it came."""

    def add(self, tokens: Sequence[Token], first: int) -> None:
        """Count the tokens from `first` on as followers; those before only serve as n-grams."""
        if not self._best and len(tokens) - first > 256:
            self._fill(np.asarray(tokens[max(0, first - MAX_N) :], dtype=np.uint64), min(first, MAX_N))
            return
        best = self._best
        start = max(first, 1)
        before = tokens[max(0, start - MAX_N) : start]
        for token in tokens[start:]:
            for key in gram_keys(before):
                entry = best.get(key)
                if entry is None:
                    best[key] = _ONE_MORE | token
                elif entry & _TOKEN_MASK == token:
                    best[key] = entry + _ONE_MORE
                else:
                    self._count_other(key, entry, token)
            before = (*before[1 - MAX_N :], token)

    def _count_other(self, key: int, entry: int, token: Token) -> None:
        """Count a follower that is not the most frequent so far."""
        top, count = entry & _TOKEN_MASK, entry >> _TOKEN & _COUNT_MASK
        run = key + token * _FOLLOWER
        times = self._others.get(run, 0) + 1
        total = (entry >> (_TOKEN + _COUNT)) + 1
        if times >= count:
            # Among equals the one seen last leads: what an answer did last it tends to do again.
            self._others.pop(run, None)
            self._others[key + top * _FOLLOWER] = count
            top, count = token, times
        else:
            self._others[run] = times
        self._best[key] = total << (_TOKEN + _COUNT) | count << _TOKEN | top

    def _fill(self, ids: np.ndarray[Any, np.dtype[np.uint64]], first: int) -> None:
        """As counting `ids[first:]` one by one into the empty table."""
        keys = np.zeros(len(ids), dtype=np.uint64)
        for n in range(1, MAX_N + 1):
            keys[n:] += (ids[:-n] + np.uint64(1)) * np.uint64(_FACTORS[n - 1])
            start = max(first, n)
            grams, followers = keys[start:], ids[start:]
            runs = grams + followers * np.uint64(_FOLLOWER)
            # Of each run the last occurrence stands for all: `unique` names the first of the reversed.
            runs, last, counts = np.unique(runs[::-1], return_index=True, return_counts=True)
            last = len(grams) - 1 - last
            order = np.lexsort((last, counts, grams[last]))
            runs, last, counts = runs[order], last[order], counts[order].astype(np.uint64)
            grams, followers = grams[last], followers[last]
            ends = np.flatnonzero(np.append(grams[1:] != grams[:-1], True))
            sums = np.add.reduceat(counts, np.concatenate(([0], ends[:-1] + 1)))
            packed = sums << np.uint64(_TOKEN + _COUNT) | counts[ends] << np.uint64(_TOKEN) | followers[ends]
            self._best.update(zip(grams[ends].tolist(), packed.tolist(), strict=True))
            rest = np.delete(np.arange(len(runs)), ends)
            self._others.update(zip(runs[rest].tolist(), counts[rest].tolist(), strict=True))

    def likeliest(self, keys: Sequence[int], demands: Demands) -> tuple[Token, float] | None:
        """The follower of the longest n-gram of `keys` that meets its demand, and its probability."""
        get = self._best.get
        for n in range(len(keys) - 1, -1, -1):
            entry = get(keys[n])
            if entry is not None:
                count, total = entry >> _TOKEN & _COUNT_MASK, entry >> (_TOKEN + _COUNT)
                n_samples, share, trust = demands[n]
                if total >= n_samples and count >= share * total:
                    # A follower that had rivals is right less often than its share says.
                    return entry & _TOKEN_MASK, (count / total) ** 2 * (1 - (1 - trust) / total)
        return None

    def prune(self) -> None:
        """Forget what occurred only once."""
        self._best = {key: entry for key, entry in self._best.items() if entry >> (_TOKEN + _COUNT) > 1}
        self._others = {run: count for run, count in self._others.items() if count > 1}

    def clear(self) -> None:
        """Forget everything."""
        self._best.clear()
        self._others.clear()

    def save(self, path: str | Path) -> None:
        """Write the n-grams and their most frequent followers to a file."""
        rows = [row for row in self._best.items() if row[1] < 1 << 64]
        keys, best = np.array(rows, dtype=np.uint64).reshape(-1, 2).T
        with Path(path).open("wb") as file:
            np.savez_compressed(file, keys=keys, best=best)

    @classmethod
    def load(cls, path: str | Path) -> GramTable:
        """Read a table that `save` wrote."""
        table = cls()
        try:
            with Path(path).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                table._best = dict(zip(file["keys"].tolist(), file["best"].tolist(), strict=True))
        except (OSError, ValueError, KeyError, EOFError, TypeError, AttributeError, BadZipFile) as error:
            raise ConfigError(f"{path} is not an n-gram cache that foretoken saved: {error}") from error
        return table

    def __len__(self) -> int:
        return len(self._best)

    def memory_bytes(self) -> int:
        """Roughly the bytes held: two numbers an entry beside the tables."""
        tables = (self._best, self._others)
        return sum(sys.getsizeof(table) + 72 * len(table) for table in tables)
