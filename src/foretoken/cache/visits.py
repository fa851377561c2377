"""Which texts were here lately, and when: also those of which nothing is left."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretoken.ids import Ids

_MOST = 512
"""Texts that are remembered."""
_FACTOR = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True, order=True)
class Visit:
    """A text that was asked for: how long it was, and the number of the visit."""

    n_tokens: int
    number: int


class Visits:
    """Counts visits; a text that goes on from one that was here is the same text."""

    def __init__(self) -> None:
        self.number = 0
        self._known: dict[tuple[str, int, int], int] = {}
        """Owner, length and digest of a text; the oldest first."""

    def enter(self, owner: str, text: Ids) -> Visit | None:
        """Count a visit; returns the latest one before it of the longest beginning of this text."""
        digests = _digests(text)
        self.number += 1
        before = max(
            (
                Visit(n_tokens, number)
                for (whose, n_tokens, digest), number in self._known.items()
                if whose == owner and n_tokens <= len(text) and int(digests[n_tokens - 1]) == digest
            ),
            default=None,
        )
        key = owner, len(text), int(digests[-1])
        self._known.pop(key, None)
        self._known[key] = self.number
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return before


def _digests(text: Ids) -> NDArray[np.uint64]:
    """One number for every beginning of a text."""
    powers = np.full(len(text), _FACTOR, np.uint64)
    with np.errstate(over="ignore"):
        return np.cumsum((text.astype(np.uint64) + np.uint64(1)) * np.cumprod(powers), dtype=np.uint64)
