"""The contract of drafters: guess what comes next, learn what was right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from foretoken.backend import Span
from foretoken.types import SeqId, Token


class Grammar(Protocol):
    """What an answer must keep to, at the place where it stands."""

    def forced(self) -> list[Token]:
        """The tokens that must come next; none where there is a choice."""
        ...

    def n_valid(self, tokens: list[Token]) -> int:
        """How many of these tokens could come next."""
        ...


class DraftAsk(msgspec.Struct, frozen=True):
    """Asks for a guess at what follows `tokens`.

    `tokens` is the live sequence, prompt and answer so far: read it, do not change or keep it.
    Between two asks for one sequence it only ever grows at its end.
    """

    seq: SeqId
    tokens: Sequence[Token]
    n_max: int
    n_pending: int = 1
    """Tokens that will be decoded before the draft in any case."""
    n_min: int | None = None
    """Drafts shorter than this will not be verified; None leaves it to the engine."""
    p_min: float | None = None
    """Drafts are cut where confidence falls below this; None leaves it to the engine."""
    grammar: Grammar | None = None
    """What the answer must keep to, if anything; drafts are cut where they would leave it."""
    certainty: Callable[[], float | None] | None = None
    """How sure the model was of the last token, until the next batch is computed; None, or returns it, if unknown."""


class Draft(msgspec.Struct, frozen=True):
    """A guess: tokens, and for each the drafter's own estimate that it will be right given all before it."""

    tokens: tuple[Token, ...] = ()
    confidence: tuple[float, ...] = ()
    source: str = ""

    def __len__(self) -> int:
        return len(self.tokens)

    def cut(self, n: int) -> Draft:
        """The first `n` tokens of this guess."""
        return self if n >= len(self.tokens) else Draft(self.tokens[:n], self.confidence[:n], self.source)


NO_DRAFT = Draft()


class Verdict(msgspec.Struct, frozen=True):
    """What the model said to a draft: the tokens it emitted, the first `n_accepted` of them as drafted."""

    draft: Draft
    tokens: tuple[Token, ...]
    n_accepted: int


@runtime_checkable
class Reader(Protocol):
    """A drafter that also wants to see every batch the model has decoded, before it is judged."""

    def read(self, spans: Sequence[Span]) -> None: ...


@runtime_checkable
class Hindsighted(Protocol):
    """A drafter that can tell what it would have guessed of what has been said already."""

    def hindsight(self, ask: DraftAsk, n: int) -> Draft:
        """What it would have guessed in place of the last `n` tokens (or fewer), each from all said before it."""
        ...


class Drafter(Protocol):
    """Guesses continuations. One drafter serves all slots; `seq` names the slot.

    Whatever a drafter does, the text stays the model's own: a wrong guess costs time, never words. One whose guesses
    themselves take long sets `costly = True`: it is then asked only while it earns more than it takes, and wins trust
    by `hindsight` if it has that. One whose confidences are probabilities, as a model's are, sets `calibrated = True`:
    it is taken at its word. One that goes by grammars may set `for_grammars = True`: it is asked at every step of an
    answer that has one, and only there.
    """

    name: str

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """A new request starts in a slot; nothing learnt from one owner may serve another."""
        ...

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """One draft per ask, in the same order; an empty one where there is nothing to say."""
        ...

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Feedback on a draft of this drafter's own; drafts that were not verified get none."""
        ...

    def end(self, seq: SeqId) -> None:
        """The request is over, finished or cancelled; forget what only it needed."""
        ...
