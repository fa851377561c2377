"""Which offers to verify, and how much of each."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Protocol

import msgspec

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.ledger import Balance
from foretoken.types import SeqId


class Proposal(msgspec.Struct, frozen=True):
    """What is on the table for one slot."""

    ask: DraftAsk
    offers: Sequence[Draft]


class Step(msgspec.Struct, frozen=True):
    """What a step was and took, once it is over."""

    rows: Mapping[SeqId, int]
    """Rows decoded for each slot, certain ones and drafted ones."""
    ms: float
    reading: bool
    """Whether prompts were read in it: then its time says little about drafts."""
    verdicts: Mapping[SeqId, Verdict]
    offers: Mapping[SeqId, Sequence[Draft]]
    """All that was offered for the step, verified or not."""
    drafting: Mapping[SeqId, Mapping[str, float]] = msgspec.field(default_factory=dict)
    """Milliseconds that each drafter took for each slot, planning included; they are part of `ms`."""
    asked: Container[SeqId] = ()
    """The slots that were found worth asking for."""
    computing_ms: float | None = None
    """What computing the batch took, where that can be told from the rest; part of `ms`."""

    @property
    def n_rows(self) -> int:
        return sum(self.rows.values())

    @property
    def decode_ms(self) -> float:
        """What the step took beside drafting and planning."""
        if not self.drafting:
            return self.ms
        return self.ms - sum(sum(spent.values()) for spent in self.drafting.values())

    @property
    def beside_ms(self) -> float:
        """What it took beside drafting, planning and computing; 0 where nobody knows."""
        return 0.0 if self.computing_ms is None else max(0.0, self.decode_ms - self.computing_ms)


class Outlook(msgspec.Struct, frozen=True):
    """What a planner has learnt so far, for whoever watches; empty where it learns nothing."""

    balances: Mapping[str, Balance] = msgspec.field(default_factory=dict)
    """What each drafter saved and lost since the start."""
    curve: Mapping[int, float] = msgspec.field(default_factory=dict)
    """Milliseconds that a step is expected to take, by width."""


class Planner(Protocol):
    """Chooses for all slots together; the empty draft is always allowed."""

    def believe(self, source: str) -> None:
        """The confidences of this drafter are probabilities."""
        ...

    def demand_proof(self, source: str) -> None:
        """This drafter takes long and has hindsight: it can prove itself before it is asked."""
        ...

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]: ...
    def observe(self, step: Step) -> None: ...
    def rested(self, rows: Mapping[SeqId, int], ms: float, computing_ms: float | None) -> bool:
        """A step is over for which nobody was asked, and this is all there is to know of it; or else, `observe`."""
        ...

    def worth_asking(self, asks: Sequence[DraftAsk]) -> Sequence[DraftAsk]:
        """Those slots for which drafters should be asked this time."""
        ...

    def settled(self, ask: DraftAsk, offers: Sequence[Draft]) -> bool:
        """Whether one of these offers is as long and as sure as can be: then nobody else need be asked."""
        ...

    def too_dear(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> bool:
        """Whether a drafter that takes long is better not asked this time, given what others offer."""
        ...

    def doubts(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> int:
        """How many tokens a drafter that takes long should guess in hindsight before it is asked again; 0 is none."""
        ...

    def proved(self, ask: DraftAsk, source: str, guesses: Draft, ms: float) -> None:
        """This is what it would have guessed in place of the last tokens, and finding that out took so long."""
        ...

    def appetite(self, ask: DraftAsk, source: str) -> int:
        """How many tokens of a drafter that takes long would be verified at most, if it were sure of them."""
        ...

    def saved_ms(self, seq: SeqId) -> float | None:
        """Milliseconds that speculation saved a session so far, where the planner keeps a ledger."""
        ...

    def outlook(self) -> Outlook: ...

    def end(self, seq: SeqId) -> None: ...


class LearnsNothing:
    """What planners share that go by no observation: everybody is asked, and no account is kept."""

    __slots__ = ()

    def believe(self, source: str) -> None:
        pass

    def demand_proof(self, source: str) -> None:
        pass

    def observe(self, step: Step) -> None:
        pass

    def rested(self, rows: Mapping[SeqId, int], ms: float, computing_ms: float | None) -> bool:
        return True

    def worth_asking(self, asks: Sequence[DraftAsk]) -> Sequence[DraftAsk]:
        return asks

    def settled(self, ask: DraftAsk, offers: Sequence[Draft]) -> bool:
        return False

    def too_dear(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> bool:
        return False

    def doubts(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> int:
        return 0

    def proved(self, ask: DraftAsk, source: str, guesses: Draft, ms: float) -> None:
        pass

    def appetite(self, ask: DraftAsk, source: str) -> int:
        return ask.n_max

    def saved_ms(self, seq: SeqId) -> float | None:
        return None

    def outlook(self) -> Outlook:
        return Outlook()

    def end(self, seq: SeqId) -> None:
        pass


@dataclass(frozen=True, slots=True)
class FixedPlanner(LearnsNothing):
    """Takes the most promising offer within fixed bounds: llama.cpp's draft-min, draft-max and p-min."""

    n_min: int = 0
    n_max: int = 16
    p_min: float = 0.0

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]:
        return {proposal.ask.seq: self._choose(proposal) for proposal in proposals}

    def _choose(self, proposal: Proposal) -> Draft:
        cuts = [bounded(offer, proposal.ask, self.n_max, self.p_min) for offer in proposal.offers]
        n_min = max(1, self.n_min if proposal.ask.n_min is None else proposal.ask.n_min)
        long_enough = [draft for draft in cuts if len(draft) >= n_min]
        return max(long_enough, key=expected_tokens, default=NO_DRAFT)


def bounded(offer: Draft, ask: DraftAsk, n_max: int, p_min: float) -> Draft:
    """An offer within what the request and the settings allow."""
    p_min = p_min if ask.p_min is None else ask.p_min
    likely = next((i for i, p in enumerate(offer.confidence) if p < p_min), len(offer))
    return offer.cut(min(likely, n_max, ask.n_max))


def expected_tokens(draft: Draft) -> float:
    """How many of a draft's tokens should be accepted if its confidences are true."""
    return float(sum(accumulate(draft.confidence, mul)))
