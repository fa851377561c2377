"""Where an answer stands in its grammar, and a sampler that stays within it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from llguidance import LLMatcher
from numpy.typing import NDArray

from foretoken.backend import Among, Sampler
from foretoken.errors import GrammarError
from foretoken.types import Token


class Grammar:
    """What may come next in one answer; moves on with every token that is said."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def copy(self) -> Grammar:
        """The same place in the same grammar, for another answer."""
        return Grammar(self._matcher.deep_copy())

    def allowed(self) -> Allowed:
        """The tokens that may come next; to be asked before the next one is accepted."""
        return Allowed(self._matcher)

    @property
    def complete(self) -> bool:
        """Whether nothing but the end of the answer may come."""
        return self._matcher.is_stopped()

    def accept(self, token: Token) -> None:
        self._matcher.consume_token(token)
        _check(self._matcher)

    def forced(self) -> list[Token]:
        """The tokens that must come next whatever the model wants; none where it has a choice."""
        return self._matcher.compute_ff_tokens()

    def n_valid(self, tokens: list[Token]) -> int:
        """How many of these tokens could come next."""
        return self._matcher.validate_tokens(tokens)


class Allowed:
    """The tokens that may come next; at the end of a grammar those that end the answer.

    Inside a text that is nearly the whole vocabulary: to list it takes ten times as long as to look at some. Asking the
    matcher about one would not do: where a text is forced it accepts other ways to spell it than the one in its bits.
    """

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def allows(self, token: Token) -> bool:
        return bool(self._bits[token >> 3] >> (token & 7) & 1)

    def holds(self, tokens: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which of these tokens are among them."""
        found: NDArray[np.bool_] = (self._bits[tokens >> 3] >> (tokens & 7) & 1).astype(np.bool_)
        return found

    @property
    def n_most(self) -> int:
        """There are no more of them than these."""
        return 8 * int(np.count_nonzero(self._bits))

    @cached_property
    def tokens(self) -> NDArray[np.intp]:
        """All of them, in order."""
        bytewise = np.flatnonzero(self._bits)
        inside = np.flatnonzero(np.unpackbits(self._bits[bytewise], bitorder="little").view(np.bool_))
        if not len(inside):
            raise GrammarError("the grammar allows no token here, not even the end")
        found: NDArray[np.intp] = bytewise[inside >> 3] * 8 + (inside & 7)
        return found

    @cached_property
    def _bits(self) -> NDArray[np.uint8]:
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        _check(self._matcher)
        return bits


class GrammarSampler:
    """Lets a sampler choose among what the grammar allows."""

    def __init__(self, sampler: Sampler, grammar: Grammar) -> None:
        self._sampler = sampler
        self._grammar = grammar

    def sample(self, row: int, among: Among | None = None) -> Token:
        if among is not None:
            raise ValueError("an answer keeps to one grammar")
        token = self._sampler.sample(row, self._grammar.allowed())
        self._grammar.accept(token)
        return token

    def close(self) -> None:
        self._sampler.close()


def _check(matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise GrammarError(matcher.get_error().split("\n<", 1)[0])


def within(grammar: Grammar | None, sampler: Sampler) -> Sampler:
    """The sampler, kept to a grammar if there is one."""
    return sampler if grammar is None else GrammarSampler(sampler, grammar)
