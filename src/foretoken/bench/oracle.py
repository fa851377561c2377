"""The limit: what a drafter that knows the whole text could reach with this t(width)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from foretoken.engine import calibration
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.speculation.base import Draft, DraftAsk, Verdict
from foretoken.speculation.cost import StepCost
from foretoken.speculation.planner import LearnsNothing, Proposal
from foretoken.speculation.speculator import Speculator
from foretoken.types import SeqId, Token

MAX_WIDTH = 64
_WIDTHS = (*calibration.WIDTHS, 80, 96, 112, 128)
"""Several slots fill wider batches than the drafts of one."""


class OracleDrafter:
    """Drafts the recorded answer; owners stand for recordings."""

    name = "oracle"

    def __init__(self) -> None:
        self.recordings: dict[str, tuple[Token, ...]] = {}
        self._answering: dict[SeqId, tuple[int, tuple[Token, ...]]] = {}

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        self._answering[seq] = (len(prompt), self.recordings.get(owner, ()))

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        # A model that leaves the recording will not come back to it.
        if verdict.n_accepted < len(verdict.draft):
            self._answering.pop(seq, None)

    def end(self, seq: SeqId) -> None:
        self._answering.pop(seq, None)

    def _draft(self, ask: DraftAsk) -> Draft:
        n_prompt, recording = self._answering.get(ask.seq, (0, ()))
        said = len(ask.tokens) - n_prompt
        rest = recording[said : said + ask.n_max]
        return Draft(rest, (1.0,) * len(rest), self.name)


class OraclePlanner(LearnsNothing):
    """Cuts a text that is known into the steps that take the least time together."""

    def __init__(self, cost: Callable[[int], float], protect_ms: float, max_rows: int) -> None:
        self._cost = cost
        self._protect_ms = protect_ms
        self._max_rows = max_rows
        self._widths: dict[int, list[int]] = {}

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]:
        offers = {proposal.ask.seq: proposal.offers[0] for proposal in proposals if proposal.offers}
        return {seq: offer.cut(self.width(len(offers), len(offer) + 1) - 1) for seq, offer in offers.items()}

    def width(self, n_slots: int, n_left: int) -> int:
        """Tokens to take in the next step when every slot has `n_left` to go."""
        widths = self._widths.setdefault(n_slots, [0])
        if len(widths) <= n_left:
            self._widths[n_slots] = widths = self._partition(n_slots, max(n_left, 2 * len(widths)))
        return widths[n_left]

    def _partition(self, n_slots: int, n_tokens: int) -> list[int]:
        """For every number of tokens left, the first width of the cheapest way to say them."""
        limit = max(1, min(MAX_WIDTH, self._max_rows // n_slots))
        step = [self._cost(n_slots * w) + self._protect_ms * n_slots * (w > 1) for w in range(1, limit + 1)]
        best, widths = [0.0], [0]
        for left in range(1, n_tokens + 1):
            total, width = min((step[w - 1] + best[left - w], w) for w in range(1, min(left, limit) + 1))
            best.append(total)
            widths.append(width)
        return widths


class Limit:
    """An oracle for one engine, with t(width) as it is now."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.drafter = OracleDrafter()
        self.widths_ms = engine.call(lambda loop: calibration.measure(loop.backend, loop.memory, _WIDTHS))
        vocabulary = engine.vocabulary
        planner = OraclePlanner(
            StepCost(self.widths_ms), engine.assembly.memory_cost.protect_ms, engine.assembly.context.n_outputs
        )
        self.speculator = Speculator([self.drafter], planner, vocabulary.n_tokens, vocabulary.end_tokens)

    def speculating(self) -> AbstractContextManager[None]:
        """While this lasts the engine's drafts are the oracle's."""
        return speculating_with(self._engine, self.speculator)


@contextmanager
def speculating_with(engine: Engine, speculator: Speculator) -> Iterator[None]:
    """Lend an idle engine another speculator."""
    before = engine.call(lambda loop: _swap(loop, speculator))
    try:
        yield
    finally:
        engine.call(lambda loop: _swap(loop, before))


def _swap(loop: Loop, speculator: Speculator) -> Speculator:
    before, loop.speculator = loop.speculator, speculator
    return before
