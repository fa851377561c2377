"""The planner that is never slower: it spends time on a draft only where that is expected to win."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foretoken.speculation.aftermath import Aftermath
from foretoken.speculation.allowance import Allowance
from foretoken.speculation.asking import SMALL_BET, Asking
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.cost import BatchCost, StepCost
from foretoken.speculation.ledger import Balance
from foretoken.speculation.pause import LONGEST
from foretoken.speculation.planner import Outlook, Proposal, Step, bounded
from foretoken.speculation.sizing import Bet, MemoryCost, Sizing
from foretoken.speculation.stretch import Stretch
from foretoken.types import SeqId

_PROVEN = 0.9
"""A slot that has lost its stake may bet a few tokens still if they are at least so likely."""
_CURIOSITY = 24
"""Sure drafts declined as too dear before one is verified after all; twice as many the next time."""
_MARGIN = 1.05
"""A draft must promise this much more than a plain step: estimates are not that good."""
_MARGIN_UNPROVEN = 1.4
"""Likewise for a slot that has earned nothing yet; where several slots can hardly win more, half of what they can."""
_BEHIND = LONGEST
"""Plain steps that may wait, if nobody is asked meanwhile, until something is learnt from them: together they take
little more than one alone, when a step of the model has driven everything else out of the processor's cache."""
_TOGETHER = 16
"""Where several slots wait, the rest ends at a multiple of so many steps."""

_NOTHING: Mapping[str, float] = {}


class AdaptivePlanner(Asking):
    """Maximises expected speed over all slots together; plain decoding is always a candidate."""

    def __init__(
        self,
        cost: StepCost,
        memory: MemoryCost,
        n_min: int = 0,
        n_max: int = 64,
        p_min: float = 0.0,
        n_tries: int | None = None,
    ) -> None:
        super().__init__(Sizing(BatchCost(cost, in_passes=memory.replays), memory), n_tries)
        self._n_min = n_min
        self._n_max = n_max
        self._p_min = p_min
        self._n_declined = 0
        self._curiosity = _CURIOSITY
        self._aftermath = Aftermath()
        self._balances: dict[str, Balance] = {}
        self._stretch = Stretch()
        self._allowance = Allowance()
        self._n_steps = 0
        self._n_rest = 0
        """Steps to come in which there is nothing to do for any slot."""

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]:
        n_slots, n_offered = len(proposals), sum(bool(proposal.offers) for proposal in proposals)
        if n_offered < n_slots and not self._could_pay(n_offered):
            return {}
        plain_ms = self.cost((1,) * n_slots)
        self._sizing.switch_ms = self._aftermath.expected_ms(plain_ms)
        unproven = _MARGIN_UNPROVEN
        if n_slots > 1:
            unproven = max(_MARGIN, min(unproven, (1.0 + self._most_to_win()) / 2))
        found = (self._best_bet(proposal, plain_ms, n_slots, unproven) for proposal in proposals)
        bets = [bet for bet in found if bet is not None]
        promising = [bet for bet in bets if bet.n]
        if len(proposals) > 1 and promising:
            betting = {bet.seq for bet in promising}
            waiting = [proposal.ask.n_pending for proposal in proposals if proposal.ask.seq not in betting]
            self._sizing.together(promising, waiting)
        self._wonder(bets)
        return {bet.seq: bet.draft.cut(bet.n) for bet in bets if bet.n >= max(1, bet.n_min)}

    def rested(self, rows: Mapping[SeqId, int], ms: float, computing_ms: float | None) -> bool:
        # Most steps of a text that nobody foresees: this is all they take.
        stretch = self._stretch
        if not (self._n_rest and stretch.quiet) or (rows != stretch.rows and (stretch.rows or self._aftermath.lasts)):
            return False
        stretch.add(rows, ms, computing_ms)
        self._n_rest -= 1
        return True

    def observe(self, step: Step) -> None:
        stretch = self._stretch
        plain = not (step.reading or step.offers or step.asked or step.drafting or self._aftermath.lasts)
        if plain and self._n_rest and (step.rows == stretch.rows or not stretch.rows):
            stretch.add(step.rows, step.ms, step.computing_ms)
            self._n_rest -= 1
            self._overhear(step)
            return
        self._catch_up()
        if plain and not self.acceptance.listens:
            stretch.add(step.rows, step.ms, step.computing_ms)
            self._catch_up()
        else:
            self._learn(step)
            stretch.break_off()
        self._plan_rest()

    def _catch_up(self) -> None:
        """Learn from the plain steps that nothing was learnt from yet."""
        stretch = self._stretch
        if n := len(stretch.ms):
            elapsed_ms = sum(stretch.ms)
            self._n_steps += n
            for request in filter(None, map(self._requests.get, stretch.rows)):
                request.n_said += n
                request.ledger.elapsed_ms += elapsed_ms
                request.pause.rested(n)
            self.cost.observe(tuple(stretch.rows.values()), *stretch.usual(), n)
            self._allowance.earn(elapsed_ms)
            stretch.clear()

    def _plan_rest(self) -> None:
        rest = max(min(map(self._rest_of, self._requests.values()), default=_BEHIND), self._n_to_afford())
        if rest and len(self._requests) > 1:
            # A look around is for all slots: whose wait is over a little earlier waits for the others.
            rest += -(self._n_steps + rest) % _TOGETHER
        self._n_rest = min(_BEHIND, rest)
        self._stretch.quiet = not self.acceptance.listens

    def _n_to_afford(self) -> int:
        """Plain steps until all slots together can afford to ask for one of them."""
        return self._allowance.steps_to_next(self._ms(1)) if len(self._requests) > 1 else 0

    def _learn(self, step: Step) -> None:
        self._n_steps += 1
        quiet = not (step.asked or step.offers or step.drafting)
        learn_of = self._hear if quiet else self._judge
        for seq, verdict in step.verdicts.items():
            # Where no drafter is allowed nobody is ever asked about, and there is nothing to learn but the costs.
            if not quiet or seq in self._requests:
                self._requests[seq].n_said += len(verdict.tokens)
                learn_of(seq, verdict, step)
        if step.reading:
            self._aftermath.read()
            return
        rows = tuple(step.rows.values())
        settling = self._aftermath.distorts and max(rows, default=0) == 1
        self._book(step, rows)
        if not settling:
            self.cost.observe(rows, step.decode_ms, step.beside_ms)

    def _hear(self, seq: SeqId, verdict: Verdict, step: Step) -> None:
        """Learn from what was offered for one slot before, when nobody was asked."""
        pause = self._requests[seq].pause
        pause.rested(1)
        if self.acceptance.overhear(seq, (), verdict.tokens):
            pause.heard(self.acceptance.longest_streak(seq))

    def _overhear(self, step: Step) -> None:
        """Likewise for all slots, in a rest: it is over where what was offered turns out right."""
        for seq, verdict in step.verdicts.items():
            heard = self.acceptance.overhear(seq, (), verdict.tokens)
            if heard and self._requests[seq].pause.heard(self.acceptance.longest_streak(seq)):
                self._n_rest = 0

    def _judge(self, seq: SeqId, verdict: Verdict, step: Step) -> None:
        """Learn from what was offered for one slot, and what that took."""
        offers, spent = step.offers.get(seq, ()), step.drafting.get(seq, _NOTHING)
        for offer in offers:
            self.acceptance.learn(seq, offer, verdict.tokens)
        self.acceptance.overhear(seq, {*spent, *(offer.source for offer in offers)}, verdict.tokens)
        self._pause_or_wake(seq, step, spent)
        offered = {offer.source: offer for offer in offers}
        for source, ms in spent.items():
            offer, ms_of_all = offered.get(source, NO_DRAFT), ms * len(step.verdicts)
            self._prices.paid(source, ms_of_all, len(offer), self.cost.curve(1))
            if offer.tokens[:1] != verdict.tokens[:1]:
                self._prices.paid_in_vain(source, ms_of_all, self._requests[seq].ledger)

    def worth_asking(self, asks: Sequence[DraftAsk]) -> Sequence[DraftAsk]:
        # No wait ends before that; a new request, of which nothing is known yet, does not wait.
        if self._n_rest and len(asks) <= len(self._requests):
            return ()
        self._catch_up()
        self._requests.know(ask.seq for ask in asks)
        if self._prices.provable:
            for ask in asks:
                self._listen(ask)
        if self._n_to_afford():
            for ask in asks:
                self.acceptance.forget_offers(ask.seq)
            self._plan_rest()
            return ()
        paused = {ask.seq for ask in asks if self._rests(ask, self._n_steps)}
        if len(paused) == len(asks):
            self._plan_rest()
            asks = ()
        elif paused:
            # Drafts of several slots at once are cheaper than one after the other.
            asks = [ask for ask in asks if ask.seq not in paused or self.acceptance.longest_streak(ask.seq) > 0]
            if not self._could_pay(len(asks)):
                for ask in asks:
                    self._requests[ask.seq].put_off(self._n_steps)
                    self.acceptance.forget_offers(ask.seq)
                self._n_rest = min(_BEHIND, *(request.pause.wait for request in self._requests.values()))
                asks = ()
        return asks

    def saved_ms(self, seq: SeqId) -> float | None:
        return self._requests[seq].ledger.balance_ms if seq in self._requests else 0.0

    def outlook(self) -> Outlook:
        return Outlook(self._balances, self.cost.curve.table())

    def end(self, seq: SeqId) -> None:
        self._catch_up()
        self._passable.clear()
        self._payable.clear()
        if request := self._requests.over(seq):
            self._prices.over(request.ledger, self.cost.curve(1))
        self._aftermath.forget(seq)
        self.acceptance.forget(seq)

    def _best_bet(self, proposal: Proposal, plain_ms: float, n_slots: int, unproven: float) -> Bet | None:
        """The offer that would win the most if this slot were alone."""
        ask = proposal.ask
        ledger = self._requests[ask.seq].ledger
        stake = ledger.stake_ms(plain_ms)
        # Most offers could not pay even if nothing had to be taken back: those are not looked at any further.
        least_ms = self.cost.curve(ask.n_pending + 1) if ask.n_pending == 1 else 0.0
        bets, small_bet = [], self._small_bet()
        for offer in proposal.offers:
            if self._back_off(ask.seq, offer.source).resting():
                continue
            draft = bounded(offer, ask, self._n_max, self._p_min)
            reach = self.acceptance.reach(ask.seq, draft)
            if reach and (_is_sure(reach) or (1 + sum(reach)) * plain_ms > least_ms):
                n_min = self._n_min if ask.n_min is None else ask.n_min
                purse = self._prices.purse_ms(draft.source, ledger) / n_slots
                margin = _MARGIN if ledger.won_ms > 0 or purse > plain_ms else unproven
                n_proven = max(small_bet, self.acceptance.streak(ask.seq, draft.source) // 2)
                n_free = n_proven if reach[0] >= _PROVEN else 0
                risk = self.acceptance.risk(ask.seq, draft.source, draft.confidence[0], n_slots)
                bets.append(Bet(ask.seq, draft, reach, ask.n_pending, n_min, margin, stake, purse, risk, n_free))
        return max(bets, key=self._sizing.alone, default=None)

    def _wonder(self, bets: Sequence[Bet]) -> None:
        """Now and then verify a sure draft that does not seem to pay: the costs may have been measured wrongly."""
        sure = [bet for bet in bets if _is_sure(bet.reach)]
        if not sure or any(bet.n for bet in bets):
            return
        self._n_declined += 1
        if self._n_declined >= self._curiosity:
            self._n_declined = 0
            self._curiosity *= 2
            sure[0].n = SMALL_BET

    def _book(self, step: Step, rows: tuple[int, ...]) -> None:
        """Enter a step into the ledgers: a slot gained what plain steps would have taken, and made all of them wait."""
        n_slots = len(step.verdicts)
        if not n_slots:
            return
        sources = {seq: verdict.draft.source for seq, verdict in step.verdicts.items() if verdict.draft}
        for seq, source in self._aftermath.over(sources, step.decode_ms, lambda: self.cost(rows)).items():
            self._enter(seq, source, -self._aftermath.latest_ms)
        for request in filter(None, map(self._requests.get, step.verdicts)):
            request.ledger.elapsed_ms += step.ms
        if not (sources or step.drafting):
            self._allowance.earn(step.ms)
            return
        plain_ms = self.cost((1,) * n_slots)
        self._sizing.ask_ms = self._prices.asked(step.drafting)
        self._settle_asks(step, plain_ms)
        extra_ms = 0.0
        if sources:
            certain = [n - len(step.verdicts[seq].draft) for seq, n in step.rows.items()]
            waited_ms = self.cost.plausible(rows, step.decode_ms) - self.cost(certain)
            extra_ms = waited_ms * n_slots / len(sources)
        for seq, verdict in step.verdicts.items():
            spent = step.drafting.get(seq, _NOTHING)
            earned = self._earned(verdict, step.rows[seq], plain_ms, n_slots) - extra_ms if verdict.draft else 0.0
            for source in {verdict.draft.source, *spent} if verdict.draft else spent:
                judged = bool(verdict.draft) and source == verdict.draft.source
                won, asked = earned if judged else 0.0, spent.get(source, 0.0) * n_slots
                begins = source not in self._requests[seq].ledger.by_drafter
                self._enter(seq, source, won, asked)
                # What the first reading takes is no reason to leave it at that.
                self._back_off(seq, source).enter(won if begins else won - asked, plain_ms, judged)

    def _settle_asks(self, step: Step, plain_ms: float) -> None:
        """All slots waited for what was asked: what came of it pays for that, or else the allowance does."""
        n_slots, of_use = len(step.verdicts), any(verdict.n_accepted for verdict in step.verdicts.values())
        n_said = sum(len(verdict.tokens) for verdict in step.verdicts.values())
        self._allowance.earn(step.ms, n_said / n_slots * plain_ms - step.ms if of_use else 0.0)
        if n_slots > 1 and not of_use:
            self._allowance.pay(step.ms - step.decode_ms)

    def _enter(self, seq: SeqId, source: str, won_ms: float, asked_ms: float = 0.0) -> None:
        self._requests[seq].ledger.enter(source, won_ms, asked_ms)
        self._balances.setdefault(source, Balance()).enter(won_ms - asked_ms)

    def _earned(self, verdict: Verdict, n_rows: int, plain_ms: float, n_slots: int) -> float:
        """Accepted tokens at the price of plain steps, less what a cut makes the next step do again."""
        earned = verdict.n_accepted * plain_ms
        if self._sizing.memory.replays and verdict.n_accepted < len(verdict.draft):
            n_pending = n_rows - len(verdict.draft)
            earned -= self._sizing.replay_ms(n_pending + verdict.n_accepted, n_slots)
        return earned

    def _pause_or_wake(self, seq: SeqId, step: Step, spent: Mapping[str, float]) -> None:
        pause, n_right = self._requests[seq].pause, self.acceptance.longest_streak(seq)
        if step.verdicts[seq].n_accepted:
            pause.end()
        elif seq in step.asked:
            self._requests[seq].asked_at = self._requests[seq].n_said - len(step.verdicts[seq].tokens)
            step_ms = step.ms / len(step.verdicts)
            n_slots = len(self._requests)
            pause.asked_in_vain(n_right, sum(spent.values()), step_ms, self._share_for_asking(seq), n_slots)
            if not pause.listens:
                self.acceptance.forget_offers(seq)
            if n_slots > 1:
                pause.align(self._n_steps)
        else:
            pause.rested(1)
            pause.heard(n_right)


def _is_sure(reach: Sequence[float]) -> bool:
    return len(reach) >= SMALL_BET and reach[SMALL_BET - 1] >= _PROVEN
