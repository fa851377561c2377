"""Where in a prompt a state is worth keeping: where messages end, and now and then in between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from foretoken.ids import ids_of
from foretoken.types import Token

_SHORT = 512
"""Tokens of a prompt up to which looking at each takes less time than an array of them."""


def message_ends(prompt: Sequence[Token], end_tokens: frozenset[Token]) -> list[int]:
    """Positions right after the tokens with which this model's messages end."""
    if len(prompt) < _SHORT:
        return [i + 1 for i, token in enumerate(prompt) if token in end_tokens]
    found: list[int] = (np.flatnonzero(np.isin(ids_of(prompt), list(end_tokens))) + 1).tolist()
    return found


def anchors(ends: Iterable[int], start: int, length: int, gap: int, spacing: int, n_max: int) -> list[int]:
    """Positions from `start` on, at least `gap` apart, at which to keep the state of a prompt, in order.

    The last message end comes first in value (a regeneration, or a turn whose reasoning the client strips, goes on from
    there), then the first one (the system prompt and tools that every conversation shares), then `start` itself (the
    end of the last answer), then the other ends from the latest to the earliest, then every `spacing` tokens.
    """
    inside = [end for end in ends if start < end < length]
    wanted = inside[-1:] + inside[:1] + ([start] if 0 < start < length else []) + inside[::-1]
    wanted += range(start + spacing, length, spacing)
    chosen: list[int] = []
    for position in wanted:
        if len(chosen) < n_max and all(abs(position - other) >= gap for other in chosen):
            chosen.append(position)
    return sorted(chosen)
