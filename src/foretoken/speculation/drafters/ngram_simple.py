"""`ngram-simple`: find where the last tokens occurred before, copy what followed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field

from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter, decided, follow, gram_hashes
from foretoken.types import Token


@dataclass(slots=True)
class _Reading(Reading):
    latest: dict[int, int] = field(default_factory=dict)
    """Hash of an n-gram → where it last ended."""


class NgramSimpleDrafter(TextDrafter[_Reading]):
    """Copies up to `size_m` tokens from the last place where the final `size_n` tokens stood."""

    name = "ngram-simple"

    def __init__(self, *, size_n: int = 12, size_m: int = 48) -> None:
        super().__init__()
        if size_n < 1 or size_m < 1:
            raise ValueError("size_n and size_m must be at least 1")
        self.size_n = size_n
        self.size_m = size_m

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _Reading:
        return _Reading(owner)

    def _read(self, reading: _Reading, tokens: Sequence[Token]) -> None:
        first = max(reading.n_read, self.size_n)
        last = len(tokens)
        hashes = gram_hashes(tokens, self.size_n, first, last)
        reading.latest.update(zip(hashes, range(first, last), strict=False))

    def _guess(self, reading: _Reading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        n = self.size_n
        if len(tokens) <= n:
            return None
        key = tokens[-n:]
        at = reading.latest.get(hash(tuple(key)))
        if at is None or tokens[at - n : at] != key:
            return None
        copied = follow(tokens, at, min(n_max, self.size_m))
        return copied, decided(1 - 1 / (1 + n), len(copied))

    def _size(self, reading: _Reading) -> int:
        return sys.getsizeof(reading.latest) + 60 * len(reading.latest)
