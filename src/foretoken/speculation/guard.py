"""Keeps a drafter's faults from costing a request more than the lost draft."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from time import perf_counter

from msgspec.structs import replace

from foretoken.backend import Span
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Drafter, Hindsighted, Reader, Verdict
from foretoken.speculation.statistics import Calls, DrafterStatistics
from foretoken.types import SeqId, Token

log = logging.getLogger("foretoken.speculation")

MAX_FAILURES = 3
"""Faults in a row after which a drafter is switched off."""
SLOW_MS = 1000.0
"""A single draft that takes this long is a fault: no guess is worth a second."""


class Guard:
    """Calls one drafter; catches what it raises, checks what it says, switches it off when that repeats."""

    def __init__(
        self,
        drafter: Drafter,
        n_vocab: int,
        end_tokens: frozenset[Token],
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self.drafter = drafter
        self.name = drafter.name
        self.costly = bool(getattr(drafter, "costly", False))
        self.calibrated = bool(getattr(drafter, "calibrated", False))
        self.for_grammars = bool(getattr(drafter, "for_grammars", False))
        self.total = DrafterStatistics()
        self.enabled = True
        # Asked once: to look for a protocol's methods takes as long as drafting.
        self._reader = drafter if isinstance(drafter, Reader) else None
        self.has_hindsight = isinstance(drafter, Hindsighted)
        self._n_vocab = n_vocab
        self._end_tokens = end_tokens
        self._clock = clock
        self._faults_in_a_row = 0

    @property
    def reads(self) -> bool:
        """Whether the drafter wants to see what was decoded."""
        return self._reader is not None

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        if self.enabled:
            self._timed("begin", self.total.begin, lambda: self.drafter.begin(seq, prompt, owner))

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """One checked draft per ask; all empty when the drafter fails."""
        if not self.enabled:
            return [NO_DRAFT] * len(asks)
        started = self._clock()
        try:
            drafts = [self._checked(draft, ask) for draft, ask in zip(self.drafter.draft(asks), asks, strict=True)]
        except Exception as error:
            self._fault("draft", error)
            return [NO_DRAFT] * len(asks)
        spent = (self._clock() - started) * 1e3
        self.total.draft.add(spent)
        if spent > SLOW_MS:
            self._fault("draft", TimeoutError(f"took {spent:.0f} ms"))
        else:
            self._faults_in_a_row = 0
        return drafts

    def hindsight(self, ask: DraftAsk, n: int) -> Draft:
        """What the drafter would have guessed in place of the last `n` tokens; nothing when it fails."""
        guesses = NO_DRAFT

        def look() -> None:
            nonlocal guesses
            assert isinstance(self.drafter, Hindsighted)
            found = self.drafter.hindsight(ask, n)
            if len(found.tokens) != len(found.confidence) or len(found.tokens) > min(n, len(ask.tokens)):
                raise ValueError(f"looked back on {len(found.tokens)} tokens, not {n}")
            if not all(0.0 <= p <= 1.0 for p in found.confidence):
                raise ValueError(f"was sure of tokens by {found.confidence}")
            guesses = replace(found, source=self.name)

        if self.enabled:
            self._timed("hindsight", self.total.draft, look)
        return guesses

    def read(self, spans: Sequence[Span]) -> None:
        if self.enabled and (reader := self._reader) is not None:
            self._timed("read", self.total.read, lambda: reader.read(spans))

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        self._timed("accept", self.total.accept, lambda: self.drafter.accept(seq, verdict))

    def end(self, seq: SeqId) -> None:
        try:
            self.drafter.end(seq)
        except Exception as error:
            self._fault("end", error)

    def _timed(self, method: str, calls: Calls, action: Callable[[], None]) -> None:
        started = self._clock()
        try:
            action()
        except Exception as error:
            self._fault(method, error)
        calls.add((self._clock() - started) * 1e3)

    def _checked(self, draft: Draft, ask: DraftAsk) -> Draft:
        """The usable start of a draft: no longer than asked, known tokens, nothing after an end or off the grammar."""
        if not draft.tokens:
            return NO_DRAFT
        tokens = tuple(draft.tokens[: ask.n_max])
        if min(tokens, default=0) < 0 or max(tokens, default=0) >= self._n_vocab:
            raise ValueError(f"drafted a token that is not in the vocabulary: {tokens}")
        if not self._end_tokens.isdisjoint(tokens):
            # The end is the model's to say: a row that confirms it would be a row wasted on nothing.
            tokens = tokens[: next(i for i, token in enumerate(tokens) if token in self._end_tokens)]
        if ask.grammar is not None:
            tokens = tokens[: ask.grammar.n_valid(list(tokens))]
        confidence = tuple(map(float, draft.confidence[: len(tokens)]))
        if not all(0.0 <= p <= 1.0 for p in confidence):
            confidence = tuple(min(1.0, max(0.0, p)) for p in confidence)
        return Draft(tokens, confidence + (0.5,) * (len(tokens) - len(confidence)), self.name)

    def _fault(self, method: str, error: Exception) -> None:
        self.total.failures += 1
        self._faults_in_a_row += 1
        log.warning("drafter %s failed in %s: %s: %s", self.name, method, type(error).__name__, error)
        if self._faults_in_a_row >= MAX_FAILURES and self.enabled:
            self.enabled = False
            log.error("drafter %s failed %d times in a row and is switched off", self.name, MAX_FAILURES)
