"""The planner that is never slower: it spends time on a draft only where that is expected to win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from foretoken.speculation.acceptance import Acceptance
from foretoken.speculation.base import Draft, Verdict
from foretoken.speculation.cost import StepCost
from foretoken.speculation.ledger import BackOff, Balance, Ledger
from foretoken.speculation.planner import Outlook, Proposal, Step, bounded
from foretoken.types import SeqId

_PROVEN = 0.9
_SMALL_BET = 3
"""A slot that has lost its stake may win it back with this many rows, on tokens at least so likely."""
_CURIOSITY = 24
"""Sure drafts declined as too dear before one is verified after all."""
_MARGIN = 1.05
"""A draft must promise this much more than a plain step: estimates are not that good."""


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """What taking tokens back costs, and whether what was accepted must be decoded again."""

    protect_ms: float = 0.0
    rewind_ms: float = 0.0
    replays: bool = False


@dataclass(slots=True)
class _Bet:
    """One offer as the planner sees it: `reach[i]` is the probability that token i is emitted."""

    seq: SeqId
    draft: Draft
    reach: list[float]
    n_pending: int
    n_min: int
    n: int = 0
    sums: list[float] = field(init=False)
    """Expected tokens of the first n."""

    def __post_init__(self) -> None:
        self.sums = list(accumulate(self.reach, initial=0.0))


class AdaptivePlanner:
    """Maximises expected tokens per second over the whole batch; plain decoding is always a candidate."""

    def __init__(
        self,
        cost: StepCost,
        memory: MemoryCost,
        n_min: int = 0,
        n_max: int = 64,
        p_min: float = 0.0,
        n_tries: int | None = None,
    ) -> None:
        self.cost = cost
        """What steps cost with as many slots as the latest had."""
        self._costs = {1: cost}
        self.memory = memory
        self.acceptance = Acceptance()
        self._n_min = n_min
        self._n_max = n_max
        self._p_min = p_min
        self._n_tries = n_tries
        self._n_declined = 0
        self._ledgers: dict[SeqId, Ledger] = {}
        self._rests: dict[tuple[SeqId, str], BackOff] = {}
        self._balances: dict[str, Balance] = {}

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]:
        self._count_slots(len(proposals))
        bets = [bet for proposal in proposals if (bet := self._best_bet(proposal)) is not None]
        if not bets:
            return {}
        self._size(bets, sum(proposal.ask.n_pending for proposal in proposals), len(proposals))
        self._wonder(bets)
        return {bet.seq: bet.draft.cut(bet.n) for bet in bets if bet.n >= max(1, bet.n_min)}

    def observe(self, step: Step) -> None:
        for seq, verdict in step.verdicts.items():
            for offer in step.offers.get(seq, ()):
                self.acceptance.learn(seq, offer, verdict.tokens)
        if not step.reading:
            self._count_slots(len(step.verdicts))
            self._book(step)
            self.cost.observe(step.n_rows, step.decode_ms)

    def resting(self, seq: SeqId, source: str) -> bool:
        return self._back_off(seq, source).resting()

    def saved_ms(self, seq: SeqId) -> float | None:
        ledger = self._ledgers.get(seq)
        return ledger.balance_ms if ledger else 0.0

    def outlook(self) -> Outlook:
        return Outlook(self._balances, self.cost.table())

    def end(self, seq: SeqId) -> None:
        self._ledgers.pop(seq, None)
        self.acceptance.forget(seq)
        self._rests = {key: rest for key, rest in self._rests.items() if key[0] != seq}

    def _count_slots(self, n_slots: int) -> None:
        """Steps of several slots have a curve of their own; recurrent models are slowest at unequal lengths."""
        n_slots = max(1, n_slots)
        if n_slots not in self._costs:
            alone = self._costs[1]
            self._costs[n_slots] = alone.ragged(n_slots) if self.memory.replays else alone
        self.cost = self._costs[n_slots]

    def _best_bet(self, proposal: Proposal) -> _Bet | None:
        """The offer that would win the most if this slot were alone."""
        ask = proposal.ask
        bets = []
        for offer in proposal.offers:
            if self._back_off(ask.seq, offer.source).resting():
                continue
            draft = bounded(offer, ask, self._n_max, self._p_min)
            reach = self.acceptance.reach(ask.seq, draft)
            if reach:
                n_min = self._n_min if ask.n_min is None else ask.n_min
                bets.append(_Bet(ask.seq, draft, reach, ask.n_pending, n_min))
        return max(bets, key=self._alone) if len(bets) > 1 else next(iter(bets), None)

    def _alone(self, bet: _Bet) -> float:
        self._size([bet], bet.n_pending, 1)
        return (1 + bet.sums[bet.n]) / (self.cost(bet.n_pending + bet.n) + self._overhead(bet, bet.n))

    def _size(self, bets: list[_Bet], n_pending: int, n_slots: int) -> None:
        """Fix every draft's length so that tokens per millisecond are as many as can be expected.

        Rows go to the likeliest tokens first, whichever slot they belong to, and the best number of rows wins. Since
        t(width) is neither smooth nor monotonic every measured width is looked at.
        """
        order = [(p, which) for which, bet in enumerate(bets) for p in bet.reach]
        if len(bets) > 1:
            order.sort(key=lambda row: row[0], reverse=True)
        # Every slot emits a token, whether anything is drafted for it or not.
        tokens = float(n_slots)
        best = tokens / self.cost(n_pending) * _MARGIN
        taken = [0] * len(bets)
        chosen = list(taken)
        for n, (p, which) in enumerate(order, 1):
            tokens += p
            taken[which] += 1
            n_rows = n_pending + n
            if n_rows not in self.cost.widths and n < len(order):
                continue
            overhead = sum(self._overhead(bet, length) for bet, length in zip(bets, taken, strict=True))
            rate = tokens / (self.cost(n_rows) + overhead)
            if rate > best and self._affordable(bets, taken, n_rows):
                best, chosen = rate, list(taken)
        for bet, length in zip(bets, chosen, strict=True):
            bet.n = length

    def _wonder(self, bets: Sequence[_Bet]) -> None:
        """Now and then verify a sure draft that does not seem to pay: the costs may have been measured wrongly."""
        sure = [bet for bet in bets if len(bet.reach) >= _SMALL_BET and bet.reach[_SMALL_BET - 1] >= _PROVEN]
        if not sure or any(bet.n for bet in bets):
            return
        self._n_declined += 1
        if self._n_declined >= _CURIOSITY:
            self._n_declined = 0
            sure[0].n = _SMALL_BET

    def _overhead(self, bet: _Bet, n: int) -> float:
        """Protecting, and if the draft is cut: rewinding and decoding the accepted tokens once more."""
        if n == 0:
            return 0.0
        memory = self.memory
        cut = 1.0 - bet.reach[n - 1]
        replay = 0.0
        if memory.replays:
            # Of the tokens that would be accepted, a cut leaves about half.
            replay = self.cost(round(bet.n_pending + bet.sums[n] / 2) + 1) - self.cost(1)
        return memory.protect_ms + cut * (memory.rewind_ms + replay)

    def _affordable(self, bets: Sequence[_Bet], taken: Sequence[int], n_rows: int) -> bool:
        """Whether every slot could bear to lose this bet altogether."""
        n_drafted = sum(taken)
        loss = self.cost(n_rows) - self.cost(n_rows - n_drafted)
        return all(self._credit(bet) >= loss * n / n_drafted for bet, n in zip(bets, taken, strict=True) if n)

    def _credit(self, bet: _Bet) -> float:
        """What a slot may risk: its stake, and for a drafter that is being right all the time a small bet always."""
        stake = self._ledger(bet.seq).stake_ms(self.cost(1))
        if bet.reach[0] < _PROVEN:
            return stake
        return max(stake, self.cost(bet.n_pending + _SMALL_BET) - self.cost(bet.n_pending))

    def _book(self, step: Step) -> None:
        """Enter a step into the ledgers: its time, shared by its slots, against plain steps for the same tokens."""
        n_slots = len(step.verdicts)
        if not n_slots:
            return
        n_drafted = sum(len(verdict.draft) for verdict in step.verdicts.values())
        plain_rows = step.n_rows - n_drafted
        took = self.cost.plausible(step.n_rows, step.decode_ms)
        extra = took - self.cost(max(1, plain_rows)) if n_drafted else 0.0
        plain = self.cost(n_slots) / n_slots
        for seq, verdict in step.verdicts.items():
            share = len(verdict.draft) / n_drafted if n_drafted else 0.0
            earned = {verdict.draft.source: self._saved(verdict, plain) - extra * share} if verdict.draft else {}
            self._ledger(seq).spend(step.ms)
            for source in {*earned, *step.drafting.get(seq, {})}:
                saved = earned.get(source, 0.0) - step.drafting.get(seq, {}).get(source, 0.0)
                self._ledger(seq).enter(source, saved)
                self._balances.setdefault(source, Balance()).enter(saved)
                self._back_off(seq, source).enter(saved, plain, judged=source in earned)

    def _saved(self, verdict: Verdict, plain: float) -> float:
        """Accepted tokens at the price of plain steps, less what a cut makes the next step do again."""
        saved = verdict.n_accepted * plain
        if self.memory.replays and verdict.n_accepted < len(verdict.draft):
            saved -= self.cost(verdict.n_accepted + 2) - self.cost(1)
        return saved

    def _back_off(self, seq: SeqId, source: str) -> BackOff:
        return self._rests.setdefault((seq, source), BackOff(self._n_tries))

    def _ledger(self, seq: SeqId) -> Ledger:
        return self._ledgers.setdefault(seq, Ledger())
