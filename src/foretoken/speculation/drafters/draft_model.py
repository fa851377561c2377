"""`draft-model`: a second, smaller model guesses, and takes its own wrong guesses back by the same laws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.host import Host
from foretoken.types import SeqId, Token

_HARDLY = 0.3
"""A token that is less likely to be reached is not worth its row, nor the time to guess it."""


@dataclass(slots=True)
class _Held:
    """What the draft model's memory holds of one slot's text: the part that begins at `start`."""

    start: int = 0
    tokens: list[Token] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.start + len(self.tokens)


@dataclass(slots=True)
class _Draft:
    """A guess in the making for one slot."""

    ask: DraftAsk
    tokens: list[Token] = field(default_factory=list)
    confidence: list[float] = field(default_factory=list)
    chance: float = 1.0
    """That all of it is right."""
    over: bool = False
    """Whether it would not go on, however much was asked for."""


@dataclass(frozen=True, slots=True)
class _Latest:
    """The draft that was made last for one slot: what is left of it need not be guessed again."""

    n_before: int
    """Tokens of the text that it goes on from."""
    draft: Draft
    over: bool

    def rest(self, tokens: Sequence[Token], n_enough: int) -> Draft | None:
        """What is still ahead of a text that went on as guessed, if that is enough or all there is to say."""
        n_said = len(tokens) - self.n_before
        if not 0 <= n_said <= len(self.draft) or tuple(tokens[self.n_before :]) != self.draft.tokens[:n_said]:
            return None
        if not self.over and len(self.draft) - n_said < n_enough:
            return None
        left = Draft(self.draft.tokens[n_said:], self.draft.confidence[n_said:], self.draft.source)
        return left if left.tokens else NO_DRAFT


class DraftModelDrafter:
    """Drafts with a small model of the same vocabulary (-md); any kind of model, hybrid too.

    It reads no more than the last `window` tokens of a text it comes to: what lies further back is for drafters that
    copy, and a long prompt is not read twice.
    """

    name = "draft-model"
    costly = True
    calibrated = True

    def __init__(self, host: Host, *, n_max: int = 32, p_min: float = 0.4, window: int = 64) -> None:
        if n_max < 1 or not 0 <= p_min <= 1 or window < 1:
            raise ValueError("n_max and window must be at least 1 and p_min between 0 and 1")
        self.n_max = n_max
        self.p_min = p_min
        self.host = host
        self._backend, self._memory = host.draft_model()
        self.window = min(window, self._backend.n_ctx - n_max)
        if self.window < 1:
            raise ValueError(f"n_max must be less than the draft model's context of {self._backend.n_ctx} tokens")
        self._held: dict[SeqId, _Held] = {}
        self._latest: dict[SeqId, _Latest] = {}
        self._end_tokens = host.end_tokens
        self._warm_up()

    def _warm_up(self) -> None:
        """The first batches of a context take many times longer: better now than in somebody's answer."""
        self.draft([DraftAsk(0, [0] * self.window, self.n_max, 1, p_min=0.0)])
        self._memory.release(0)
        self._held.clear()
        self._latest.clear()

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """The next ask says what is shared with what is held."""
        self._latest.pop(seq, None)

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        drafts: dict[SeqId, Draft] = {}
        for ask in asks:
            latest = self._latest.get(ask.seq)
            n_enough = (min(ask.n_max, self.n_max) + 1) // 2
            if latest and (rest := latest.rest(ask.tokens, n_enough)) is not None:
                drafts[ask.seq] = rest.cut(ask.n_max)
        if fresh := [ask for ask in asks if ask.seq not in drafts]:
            drafts |= self._guess(fresh)
        return [drafts[ask.seq] for ask in asks]

    def _guess(self, asks: Sequence[DraftAsk]) -> dict[SeqId, Draft]:
        """Draft anew."""
        rows = self._catch_up(asks)
        going = making = [_Draft(ask) for ask in asks]
        for n in range(1, self.n_max + 1):
            going = [draft for draft in going if self._extend(draft, rows[draft.ask.seq], n)]
            # The last token of a draft is not decoded: nobody asks what comes after it.
            if not going or n == self.n_max:
                break
            rows = self._decode_drafted(going)
        for made in making:
            draft = Draft(tuple(made.tokens), tuple(made.confidence), self.name) if made.tokens else NO_DRAFT
            self._latest[made.ask.seq] = _Latest(len(made.ask.tokens), draft, made.over)
        return {made.ask.seq: self._latest[made.ask.seq].draft for made in making}

    def hindsight(self, ask: DraftAsk, n: int) -> Draft:
        """It reads the text for this, all but the last token, as it would for a draft; those `n` in any case.

        Some of them it may have guessed itself, and hold already.
        """
        self._forget_what_differs(ask, n + 1)
        held = self._held[ask.seq]
        new = list(ask.tokens[held.end : -1])[: self._backend.n_batch]
        n = min(n, len(new), self._backend.n_outputs)
        if n == 0:
            return NO_DRAFT
        span = Span(ask.seq, len(held.tokens), new, n, 0)
        self._decode([span])
        said = ask.tokens[held.end - n + 1 : held.end + 1]
        before = replace(ask, tokens=ask.tokens[: held.end - n + 1])
        guesses = [self.choose(self._backend.logits(row), before, said[:i]) for i, row in enumerate(span.outputs)]
        return Draft(tuple(token for token, _ in guesses), tuple(p for _, p in guesses), self.name)

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Nothing to do: the next ask shows which guesses stayed."""

    def end(self, seq: SeqId) -> None:
        """What is held stays: the slot's next request may share its beginning."""
        self._latest.pop(seq, None)

    def choose(self, logits: NDArray[np.float32], ask: DraftAsk, drafted: Sequence[Token]) -> tuple[Token, float]:
        """The likeliest token behind what was asked about and `drafted` so far, and its probability."""
        token = int(logits.argmax())
        return token, float(1.0 / np.exp(logits - logits[token]).sum())

    def _extend(self, draft: _Draft, logits: NDArray[np.float32], n: int) -> bool:
        """Add the likeliest token if it is likely enough; says whether the draft can go on."""
        token, p = self.choose(logits, draft.ask, draft.tokens)
        p_min = self.p_min if draft.ask.p_min is None else draft.ask.p_min
        draft.chance *= p
        if p < p_min or draft.chance < _HARDLY or token in self._end_tokens:
            draft.over = True
            return False
        draft.tokens.append(token)
        draft.confidence.append(p)
        return n < draft.ask.n_max

    def _catch_up(self, asks: Sequence[DraftAsk]) -> dict[SeqId, NDArray[np.float32]]:
        """Bring the draft model to the end of every sequence; returns the logits there."""
        for ask in asks:
            self._forget_what_differs(ask)
        rows: dict[SeqId, NDArray[np.float32]] = {}
        while behind := [ask for ask in asks if ask.seq not in rows]:
            spans, row = [], 0
            for ask in behind:
                held = self._held[ask.seq]
                n_behind = len(ask.tokens) - held.end
                n = min(n_behind, self._backend.n_batch - row)
                if n > 0:
                    new = ask.tokens[held.end : held.end + n]
                    spans.append(Span(ask.seq, len(held.tokens), new, int(n == n_behind), row))
                    row += n
            rows |= self._decode(spans)
        for ask in asks:
            self._memory.protect(ask.seq, len(self._held[ask.seq].tokens), self.n_max)
        return rows

    def _forget_what_differs(self, ask: DraftAsk, n_again: int = 1) -> None:
        """Rewind to what is held and still true, leaving at least the last token, or more, to decode; or begin near
        the end."""
        held = self._held.setdefault(ask.seq, _Held())
        n = len(ask.tokens)
        limit = min(len(held.tokens), max(0, n - n_again - held.start))
        known = list(ask.tokens[held.start : held.start + limit])
        shared = limit
        if held.tokens[:limit] != known:
            shared = next(i for i in range(limit) if held.tokens[i] != known[i])
        if shared and n - held.start - shared <= self.window and n - held.start + self.n_max <= self._backend.n_ctx:
            del held.tokens[self._memory.rewind(ask.seq, shared) :]
        else:
            self._memory.release(ask.seq)
            self._held[ask.seq] = _Held(max(0, n - self.window))

    def _decode_drafted(self, going: Sequence[_Draft]) -> dict[SeqId, NDArray[np.float32]]:
        """Decode the latest guess of every draft that goes on, all in one batch."""
        return self._decode(
            [
                Span(draft.ask.seq, len(self._held[draft.ask.seq].tokens), draft.tokens[-1:], 1, row)
                for row, draft in enumerate(going)
            ]
        )

    def _decode(self, spans: Sequence[Span]) -> dict[SeqId, NDArray[np.float32]]:
        try:
            self._backend.decode(spans)
        except Exception:
            # What memory holds after a failure is unknown: start over next time.
            for span in spans:
                self._latest.pop(span.seq, None)
                self._memory.release(span.seq)
                self._held[span.seq] = _Held()
            raise
        for span in spans:
            self._held[span.seq].tokens += span.tokens
        return {span.seq: self._backend.logits(span.outputs[0]) for span in spans if span.n_outputs}
