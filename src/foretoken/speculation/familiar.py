"""Whether the end of a text stood in it before: where it did not, nothing is being copied, and nobody need be asked."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from foretoken.types import Token

_RUN = 4
_FACTORS = (0x2545F491, 0x9E3779B1, 0x85EBCA6B, 1)
_FREE = 16
"""Places for every token: so seldom are two runs taken for one another."""
_LEAST, _MOST = 1 << 12, 1 << 20
_MANY = 64
"""Tokens from which on taking them in all at once takes less time than one by one."""


class Familiar:
    """Remembers which runs of tokens a growing text has, a byte each; reads only what is new."""

    def __init__(self, n_tokens: int) -> None:
        """Made for a text of about so many tokens; of one many times as long everything seems familiar."""
        size = min(_MOST, max(_LEAST, 1 << (_FREE * n_tokens).bit_length()))
        self._seen = bytearray(size)
        self._mask = size - 1
        self._n_read = _RUN - 1
        self.run = 0
        """How many runs in a row, up to the last one, stood in the text before: meanwhile it may be a copy."""

    def read(self, tokens: Sequence[Token]) -> int:
        """Take in what is new of the text; returns `run`."""
        if len(tokens) - self._n_read > _MANY:
            self._take_in(tokens)
        n = self._n_read
        if len(tokens) > n:
            seen, mask, run = self._seen, self._mask, self.run
            (i, j, k, _), (a, b, c) = _FACTORS, tokens[n + 1 - _RUN : n]
            for d in tokens[n:]:
                key = i * a + j * b + k * c + d & mask
                run = run + 1 if seen[key] else 0
                seen[key] = 1
                a, b, c = b, c, d
            self.run, self._n_read = run, len(tokens)
        return self.run

    def _take_in(self, tokens: Sequence[Token]) -> None:
        """All but the last run."""
        ids = np.array(tokens[self._n_read + 1 - _RUN : -1], np.int64)
        n = len(ids) - _RUN + 1
        keys = sum(factor * ids[i : i + n] for i, factor in enumerate(_FACTORS)) & self._mask
        np.frombuffer(self._seen, np.uint8)[keys] = 1
        self._n_read = len(tokens) - 1
