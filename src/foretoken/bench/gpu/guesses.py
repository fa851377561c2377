"""What a real draft model guessed of a recorded answer, and the same for the tokens of another vocabulary."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import prod

_CERTAIN = 999
"""In thousandths. Who says 1 has its reasons, to the planner: a rounded probability must not."""


@dataclass(frozen=True, slots=True)
class Guess:
    """Of one token: how many bytes of the answer it is, whether it was guessed, and how sure the draft model was."""

    n_bytes: int
    right: bool
    p: float


def pack(guesses: Sequence[Guess]) -> str:
    """One word per token: its bytes, + if it was guessed and - if not, the probability in thousandths."""
    return " ".join(f"{one.n_bytes}{'-+'[one.right]}{min(_CERTAIN, round(1000 * one.p))}" for one in guesses)


def unpack(text: str) -> tuple[Guess, ...]:
    """What `pack` wrote."""
    words = (re.split("([+-])", word) for word in text.split())
    return tuple(Guess(int(n_bytes), sign == "+", int(p) / 1000) for n_bytes, sign, p in words)


def recut(guesses: Sequence[Guess], lengths: Sequence[int]) -> tuple[Guess, ...]:
    """The guesses for tokens of other lengths in bytes, from the same beginning.

    A token is guessed if all the old tokens that it overlaps were, and is as likely as those together; behind the last
    guess nothing is guessed.
    """
    ends = list(accumulate(one.n_bytes for one in guesses))
    made, start = [], 0
    for n_bytes in lengths:
        end = start + n_bytes
        overlapped = guesses[bisect_right(ends, start) : bisect_left(ends, end) + 1]
        known = bool(ends) and end <= ends[-1]
        right = known and all(one.right for one in overlapped)
        made.append(Guess(n_bytes, right, prod(one.p for one in overlapped) if known else 0.0))
        start = end
    return tuple(made)
