"""Comparing a draft with what the model says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretoken.backend import Sampler
from foretoken.speculation.base import Draft
from foretoken.types import Token


def verify(sampler: Sampler, rows: Sequence[int], draft: Draft) -> Iterator[tuple[int, Token]]:
    """Sample row after row until the model disagrees with the draft; the disagreement is the next token.

    Lazy, so that whoever consumes it decides where the answer ends: a row is sampled only if its token will
    be emitted, and an empty draft is plain decoding.
    """
    for row, guess in zip(rows, (*draft.tokens, None), strict=True):
        token = sampler.sample(row)
        yield row, token
        if token != guess:
            return
