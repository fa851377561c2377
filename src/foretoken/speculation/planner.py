"""Which offer to verify, and how much of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from typing import Protocol

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.types import SeqId


class Planner(Protocol):
    """Chooses among the offers for one slot; the empty draft is always allowed."""

    def choose(self, ask: DraftAsk, offers: Sequence[Draft]) -> Draft: ...
    def observe(self, seq: SeqId, verdict: Verdict) -> None: ...


@dataclass(frozen=True, slots=True)
class FixedPlanner:
    """Takes the most promising offer within fixed bounds: llama.cpp's draft-min, draft-max and p-min."""

    n_min: int = 0
    n_max: int = 16
    p_min: float = 0.0

    def choose(self, ask: DraftAsk, offers: Sequence[Draft]) -> Draft:
        cuts = [self._cut(offer, ask) for offer in offers]
        n_min = max(1, self.n_min if ask.n_min is None else ask.n_min)
        long_enough = [draft for draft in cuts if len(draft) >= n_min]
        return max(long_enough, key=expected_tokens, default=NO_DRAFT)

    def observe(self, seq: SeqId, verdict: Verdict) -> None:
        pass

    def _cut(self, offer: Draft, ask: DraftAsk) -> Draft:
        p_min = self.p_min if ask.p_min is None else ask.p_min
        likely = next((i for i, p in enumerate(offer.confidence) if p < p_min), len(offer))
        return offer.cut(min(likely, self.n_max, ask.n_max))


def expected_tokens(draft: Draft) -> float:
    """How many of a draft's tokens should be accepted if its confidences are true."""
    return float(sum(accumulate(draft.confidence, mul)))
