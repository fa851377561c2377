"""The one idea that carries the code: tokens, and how many of them the memory holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.types import Token


@dataclass(slots=True)
class Sequence:
    """What a slot's text is, and how much of it the model's memory already holds."""

    tokens: list[Token] = field(default_factory=list)
    n_cached: int = 0
    shifted: bool = False
    """Whether a part was forgotten in between: what memory holds is then not what these tokens alone would give."""

    @property
    def n_pending(self) -> int:
        return len(self.tokens) - self.n_cached

    def pending(self, n: int) -> list[Token]:
        """The next `n` tokens to decode: prompt, replay and plain decoding alike."""
        return self.tokens[self.n_cached : self.n_cached + n]

    @property
    def held(self) -> list[Token]:
        """The tokens that memory holds."""
        return [] if self.shifted else self.tokens[: self.n_cached]

    def shared_prefix(self, other: list[Token]) -> int:
        """How many leading tokens that memory holds are also the start of `other`."""
        return 0 if self.shifted else n_shared(self.tokens, other, self.n_cached)


def n_shared(one: list[Token], other: list[Token], limit: int) -> int:
    """How many of the first tokens, up to a limit, are the same."""
    limit = min(limit, len(one), len(other))
    if one[:limit] == other[:limit]:
        return limit
    # Lists are compared much faster than their tokens one by one.
    same, differs = 0, limit
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same
