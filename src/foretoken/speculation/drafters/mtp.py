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


@dataclass(slots=True)
class _Reading:
    """What is known of one slot: the model's latest hidden states, and which tokens the layer has read."""

    window: int
    states: dict[int, NDArray[np.float32]] = field(default_factory=dict)
    """Hidden state after the token at a position."""
    start: int = 0
    read: list[Token] = field(default_factory=list)
    """What the layer has read for good, from position `start` on."""

    def take(self, span: Span, states: NDArray[np.float32]) -> None:
        """Add what the model has just decoded, over what it decoded there before."""
        end = span.start + len(span.tokens)
        oldest = end - self.window
        self.states = {p: state for p, state in self.states.items() if oldest <= p < span.start}
        skipped = max(0, oldest - span.start)
        self.states |= dict(enumerate(states[skipped:], span.start + skipped))
        self.keep(span.tokens, span.start)

    def keep(self, tokens: Sequence[Token], first: int) -> None:
        """Forget what was read from where `tokens`, which stand at `first`, are other ones."""
        at = max(first, self.start)
        known = self.read[at - self.start :]
        pairs = enumerate(zip(known, tokens[at - first :], strict=False))
        same = next((i for i, (mine, theirs) in pairs if mine != theirs), min(len(known), len(tokens) - (at - first)))
        del self.read[max(0, at - self.start + same) :]

    def first_readable(self, n: int) -> int | None:
        """Where the layer can begin to read up to `n`; None if the state before the last token is not known."""
        start = n - 1
        if start > 0 and start - 1 not in self.states:
            return None
        while start > 1 and start > n - self.window and start - 2 in self.states:
            start -= 1
        return start


class MtpDrafter:
    """Drafts with the layer that some models carry to predict the token after next (Qwen3.5 and its kin).

    The layer reads no more than the last `window` tokens of a text: a long prompt is not read twice, and its hidden
    states are not kept.
    """

    name = "mtp"
    costly = True
    calibrated = True

    def __init__(self, host: Host, *, n_max: int = 4, p_min: float = 0.5, window: int = 32) -> None:
        if n_max < 1 or not 0 <= p_min <= 1 or window < 2:
            raise ValueError("n_max must be at least 1, window at least 2 and p_min between 0 and 1")
        self.n_max = n_max
        self.p_min = p_min
        self._layer = host.mtp()
        self.window = min(window, self._layer.n_batch)
        self._readings: dict[SeqId, _Reading] = {}

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """Forget what the slot read of another text: its memory may have been filled from elsewhere since."""
        if reading := self._readings.get(seq):
            reading.keep(prompt, 0)
            # The same positions of another text: its states would be taken for this one's.
            known = reading.start + len(reading.read)
            reading.states = {p: state for p, state in reading.states.items() if p < known} if reading.read else {}

    def read(self, spans: Sequence[Span]) -> None:
        """Remember the hidden states of a batch; rows of a cut draft are overwritten by what follows it."""
        for span in spans:
            reading = self._readings.setdefault(span.seq, _Reading(self.window))
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
        reading.keep(ask.tokens[reading.start : n - 1], reading.start)
        first = reading.first_readable(n)
        if first is None:
            return None
        done = reading.start + len(reading.read)
        if not reading.read or done < first:
            reading.start, reading.read, done = first, [], first
            self._layer.remove(ask.seq, 0)
        self._layer.remove(ask.seq, done)
        span = Span(ask.seq, done, list(ask.tokens[done:]), 1, 0)
        before = [reading.states[p - 1] if p else np.zeros(self._layer.n_embd, np.float32) for p in range(done, n)]
        self._layer.decode_after([span], np.stack(before))
        reading.read += span.tokens
        return len(span.tokens) - 1
