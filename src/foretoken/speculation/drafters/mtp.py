"""`mtp`: the model's own multi-token-prediction layer guesses, from the model's own hidden states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.host import Host
from foretoken.types import SeqId, Token

NOT_A_TOKEN = -1

_CHUNK = 512
"""Rows of a prompt that the layer reads at once."""


@dataclass(slots=True)
class _Reading:
    """What is known of one slot: the tokens the model decoded, and its hidden states that are still needed."""

    tokens: list[Token] = field(default_factory=list)
    states: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    """Hidden state after the token at a position; those the layer is past are let go."""
    n_done: int = 0
    """How many positions the layer has read for good."""

    def take(self, span: Span, states: NDArray[np.float32]) -> None:
        """Add what the model has just decoded, over what it decoded there before."""
        known = self.tokens[span.start : span.start + len(span.tokens)]
        same = next((i for i, (a, b) in enumerate(zip(known, span.tokens, strict=False)) if a != b), len(known))
        self.n_done = min(self.n_done, span.start + same)
        self.tokens[span.start :] = span.tokens
        self.states |= dict(enumerate(states, span.start))

    def before(self, start: int, end: int) -> list[NDArray[np.float32]] | None:
        """The state before each token from `start` to `end`, if all are known."""
        if start == 0:
            first = np.zeros_like(next(iter(self.states.values()))) if self.states else None
            states = [first, *(self.states.get(p) for p in range(end - 1))]
        else:
            states = [self.states.get(p) for p in range(start - 1, end - 1)]
        known = [state for state in states if state is not None]
        return known if len(known) == len(states) else None

    def done(self, n: int) -> None:
        """The layer has read `n` tokens; only the state it goes on from is still needed."""
        self.n_done = n
        self.states = {p: state for p, state in self.states.items() if p >= n - 2}


class MtpDrafter:
    """Drafts with the layer that some models carry to predict the token after next (Qwen3.5 and its kin)."""

    name = "mtp"
    costly = True

    def __init__(self, host: Host, *, n_max: int = 4, p_min: float = 0.5) -> None:
        if n_max < 1 or not 0 <= p_min <= 1:
            raise ValueError("n_max must be at least 1 and p_min between 0 and 1")
        self.n_max = n_max
        self.p_min = p_min
        self._layer = host.mtp()
        self._readings: dict[SeqId, _Reading] = {}

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """Forget what the slot read of another text: its memory may have been filled from elsewhere since."""
        if reading := self._readings.get(seq):
            pairs = enumerate(zip(reading.tokens, prompt, strict=False))
            same = next((i for i, (a, b) in pairs if a != b), min(len(reading.tokens), len(prompt)))
            del reading.tokens[same:]
            reading.n_done = min(reading.n_done, same)

    def read(self, spans: Sequence[Span]) -> None:
        """Remember the hidden states of a batch; rows of a cut draft are overwritten by what follows it."""
        for span in spans:
            reading = self._readings.setdefault(span.seq, _Reading())
            if span.start > len(reading.tokens):
                # Another slot read this prefix: without its states the layer is blind here.
                reading = self._readings[span.seq] = _Reading(tokens=[NOT_A_TOKEN] * span.start)
            reading.take(span, self._layer.target_hidden(span))

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Nothing to do: the next ask shows which guesses stayed."""

    def end(self, seq: SeqId) -> None:
        """What is read stays: the slot's next request may share its beginning."""

    def _draft(self, ask: DraftAsk) -> Draft:
        n = len(ask.tokens)
        reading = self._readings.get(ask.seq)
        row = self._catch_up(ask, reading) if reading and 1 < n <= self._layer.n_ctx else None
        if row is None:
            return NO_DRAFT
        tokens: list[Token] = []
        confidence: list[float] = []
        p_min = self.p_min if ask.p_min is None else ask.p_min
        while len(tokens) < min(self.n_max, ask.n_max):
            logits = self._layer.logits(row)
            token = int(logits.argmax())
            p = float(1.0 / np.exp(logits - logits[token]).sum())
            if p < p_min:
                break
            tokens.append(token)
            confidence.append(p)
            if len(tokens) == min(self.n_max, ask.n_max) or n + len(tokens) > self._layer.n_ctx:
                break
            # From here on the layer goes by its own hidden states.
            state = self._layer.hidden(row)
            self._layer.decode_after([Span(ask.seq, n + len(tokens) - 1, [token], 1, 0)], state[np.newaxis])
            row = 0
        return Draft(tuple(tokens), tuple(confidence), self.name) if tokens else NO_DRAFT

    def _catch_up(self, ask: DraftAsk, reading: _Reading) -> int | None:
        """Let the layer read all it has not read, the last token included; returns the row with logits."""
        n = len(ask.tokens)
        start = min(reading.n_done, n - 1)
        before = reading.before(start, n)
        if before is None:
            return None
        self._layer.remove(ask.seq, start)
        row = 0
        for first in range(0, n - start, _CHUNK):
            tokens = list(ask.tokens[start + first : min(n, start + first + _CHUNK)])
            last = start + first + len(tokens) == n
            span = Span(ask.seq, start + first, tokens, int(last), 0)
            self._layer.decode_after([span], np.stack(before[first : first + len(tokens)]))
            row = len(tokens) - 1
        reading.done(n)
        return row
