"""Where an answer stands in its grammar, and a sampler that stays within it."""

from __future__ import annotations

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from foretoken.backend import Sampler
from foretoken.errors import GrammarError
from foretoken.types import Token


class Grammar:
    """What may come next in one answer; moves on with every token that is said."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def copy(self) -> Grammar:
        """The same place in the same grammar, for another answer."""
        return Grammar(self._matcher.deep_copy())

    def allowed(self) -> NDArray[np.intp]:
        """Every token that may come next, in order; at the end of the grammar those that end the answer."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        self._check()
        found = np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_))
        if not len(found):
            raise GrammarError("the grammar allows no token here, not even the end")
        return found

    @property
    def complete(self) -> bool:
        """Whether nothing but the end of the answer may come."""
        return self._matcher.is_stopped()

    def accept(self, token: Token) -> None:
        self._matcher.consume_token(token)
        self._check()

    def forced(self) -> list[Token]:
        """The tokens that must come next whatever the model wants; none where it has a choice."""
        return self._matcher.compute_ff_tokens()

    def n_valid(self, tokens: list[Token]) -> int:
        """How many of these tokens could come next."""
        return self._matcher.validate_tokens(tokens)

    def _check(self) -> None:
        if self._matcher.is_error():
            raise GrammarError(self._matcher.get_error().split("\n<", 1)[0])


class GrammarSampler:
    """Lets a sampler choose among what the grammar allows."""

    def __init__(self, sampler: Sampler, grammar: Grammar) -> None:
        self._sampler = sampler
        self._grammar = grammar

    def sample(self, row: int, among: NDArray[np.intp] | None = None) -> Token:
        allowed = self._grammar.allowed()
        token = self._sampler.sample(row, allowed if among is None else np.intersect1d(allowed, among))
        self._grammar.accept(token)
        return token

    def close(self) -> None:
        self._sampler.close()


def within(grammar: Grammar | None, sampler: Sampler) -> Sampler:
    """The sampler, kept to a grammar if there is one."""
    return sampler if grammar is None else GrammarSampler(sampler, grammar)
