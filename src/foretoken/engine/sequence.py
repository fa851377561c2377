"""The one idea that carries the code: tokens, and how many of them the memory holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.types import Token


@dataclass(slots=True)
class Sequence:
    """What a slot's text is, and how much of it the model's memory already holds."""

    tokens: list[Token] = field(default_factory=list)
    n_cached: int = 0

    @property
    def n_pending(self) -> int:
        return len(self.tokens) - self.n_cached

    def pending(self, n: int) -> list[Token]:
        """The next `n` tokens to decode: prompt, replay and plain decoding alike."""
        return self.tokens[self.n_cached : self.n_cached + n]

    def shared_prefix(self, other: list[Token]) -> int:
        """How many leading tokens that memory holds are also the start of `other`."""
        limit = min(self.n_cached, len(other))
        if self.tokens[:limit] == other[:limit]:
            return limit
        return next(i for i in range(limit) if self.tokens[i] != other[i])
