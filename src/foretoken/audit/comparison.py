"""Where two answers part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first place where an answer is not the expected one; None is where a text ended."""

    case: str
    position: int
    expected: str | None
    got: str | None
    expected_token: int | None = None
    got_token: int | None = None
    width: int | None = None
    """Rows of the batch that decided it."""
    margin: float | None = None
    """Between the two best logits of plain decoding: small is a near tie, large is a bug."""

    def __str__(self) -> str:
        unit = "letter" if self.expected_token is None and self.got_token is None else "token"
        parts = [f"at {unit} {self.position}: {_shown(self.expected)} became {_shown(self.got)}"]
        if self.width is not None:
            parts.append(f"batch of {self.width} rows")
        if self.margin is not None:
            parts.append(f"margin {self.margin:.3g}")
        return ", ".join(parts)


def first_difference(expected: Sequence[T], got: Sequence[T]) -> int | None:
    """The first index at which two sequences differ, their ends included."""
    nothing = object()
    pairs = zip_longest(expected, got, fillvalue=nothing)
    return next((i for i, (one, other) in enumerate(pairs) if one != other), None)


def compare_texts(case: str, expected: str, got: str) -> Divergence | None:
    """The first letter that differs, shown with what follows it."""
    at = first_difference(expected, got)
    if at is None:
        return None
    return Divergence(case, at, expected[at : at + 20] or None, got[at : at + 20] or None)


def _shown(text: str | None) -> str:
    return "the end" if text is None else repr(text)
