"""All of speculation behind one door: the engine asks for drafts and reports verdicts, no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter

from msgspec.structs import replace

from foretoken.aside import AT_ONCE, Aside
from foretoken.backend import Span
from foretoken.speculation.base import Draft, DraftAsk, Drafter, Verdict
from foretoken.speculation.guard import Guard
from foretoken.speculation.planner import FixedPlanner, Planner, Proposal, Step
from foretoken.speculation.statistics import Calls, Claims, DrafterStatistics
from foretoken.types import DrafterUsage, SeqId, Token


class Speculator:
    """Lets every drafter offer, lets the planner choose, and keeps the statistics."""

    def __init__(
        self,
        drafters: Sequence[Drafter] = (),
        planner: Planner | None = None,
        n_vocab: int = 0,
        end_tokens: frozenset[Token] = frozenset(),
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        guards = [Guard(drafter, n_vocab, end_tokens, clock) for drafter in drafters]
        self.guards = sorted(guards, key=lambda guard: guard.costly)
        """Those whose guesses take long come last: they are asked where the others have nothing good to offer."""
        self._readers = [guard for guard in self.guards if guard.reads]
        self.planner: Planner = planner or FixedPlanner()
        for guard in self.guards:
            if guard.calibrated:
                self.planner.believe(guard.name)
            if guard.costly and guard.has_hindsight:
                self.planner.demand_proof(guard.name)
        self._clock = clock
        self._sessions: dict[SeqId, _SessionRecord] = {}
        self._guarded: set[SeqId] = set()
        """Those for which there is somebody to ask."""
        self._verdicts: dict[SeqId, Verdict] = {}
        self._offers: dict[SeqId, list[Draft]] = {}
        self._spent: dict[SeqId, dict[str, float]] = {}
        self._asked: set[SeqId] = set()
        self._ended: list[SeqId] = []
        self.widths: defaultdict[int, Calls] = defaultdict(Calls)
        """How often a step had so many rows, and how long those took; steps that read prompts are not counted."""

    @property
    def reads(self) -> bool:
        """Whether a drafter reads what one context has computed: then drafts are for that context only."""
        return bool(self._readers)

    @property
    def statistics(self) -> Mapping[str, DrafterStatistics]:
        """What each drafter did since the start."""
        return {guard.name: guard.total for guard in self.guards}

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str = "", allowed: Sequence[str] | None = None) -> None:
        """A request starts in a slot; only the allowed drafters, if named, will be asked for it."""
        guards = [guard for guard in self.guards if allowed is None or guard.name in allowed]
        record = self._sessions.setdefault(seq, _SessionRecord(guards))
        if guards:
            self._guarded.add(seq)
        for guard in record.guards:
            before = guard.total.begin.ms
            guard.begin(seq, prompt, owner)
            record.statistics[guard.name].begin.add(guard.total.begin.ms - before)

    def draft(self, asks: Sequence[DraftAsk]) -> dict[SeqId, Draft]:
        """The draft to verify for each slot that asks; slots with none are left out."""
        if not self._guarded:
            return {}
        worth_asking = self.planner.worth_asking(asks)
        bound = [ask for ask in asks if ask.grammar is not None]
        if not worth_asking and not bound:
            return {}
        started = self._clock()
        self._asked, self._spent = {ask.seq for ask in worth_asking}, {}
        self._offers = offers = self._ask(asks, worth_asking, bound)
        chosen: dict[SeqId, Draft] = {}
        if any(offers.values()):
            chosen = self.planner.plan([Proposal(ask, offers[ask.seq]) for ask in asks])
        self._bill((self._clock() - started) * 1e3)
        return {seq: draft for seq, draft in chosen.items() if draft}

    def _ask(
        self, asks: Sequence[DraftAsk], worth_asking: Sequence[DraftAsk], bound: Sequence[DraftAsk]
    ) -> dict[SeqId, list[Draft]]:
        """Let those offer who should be asked this time; some go by grammars, and only where there is one."""
        offers: dict[SeqId, list[Draft]] = {ask.seq: [] for ask in asks}
        for guard in self.guards:
            able = bound if guard.for_grammars else worth_asking
            if guard.costly and guard.has_hindsight:
                self._look_back(guard, able, offers)
            concerned = [ask for ask in able if self._concerns(guard, ask, offers[ask.seq])]
            if not concerned:
                continue
            if guard.costly:
                concerned = [self._modest(ask, guard) for ask in concerned]
            before = guard.total.draft.ms
            drafts = guard.draft(concerned)
            spent = (guard.total.draft.ms - before) / len(concerned)
            for ask, draft in zip(concerned, drafts, strict=True):
                self._sessions[ask.seq].drafted(guard, draft, spent)
                self._spend(ask.seq, guard, spent)
                if draft:
                    offers[ask.seq].append(draft)
        return offers

    def _look_back(self, guard: Guard, asks: Sequence[DraftAsk], offers: Mapping[SeqId, Sequence[Draft]]) -> None:
        """Where a drafter is in doubt, let it show what it would have guessed so far."""
        for ask in asks:
            record = self._sessions[ask.seq]
            if guard in record.guards and (n := self.planner.doubts(ask, guard.name, offers[ask.seq])):
                before = guard.total.draft.ms
                guesses = guard.hindsight(ask, n)
                spent = guard.total.draft.ms - before
                record.statistics[guard.name].draft.add(spent)
                self._spend(ask.seq, guard, spent)
                self.planner.proved(ask, guard.name, guesses, spent)

    def _spend(self, seq: SeqId, guard: Guard, ms: float) -> None:
        spent = self._spent.setdefault(seq, {})
        spent[guard.name] = spent.get(guard.name, 0.0) + ms

    def _bill(self, ms: float) -> None:
        """Whoever was asked is charged for the planning too, each by what it took itself."""
        asked = sum(sum(spent.values()) for spent in self._spent.values())
        if asked > 0:
            self._spent = {
                seq: {name: took * ms / asked for name, took in spent.items()} for seq, spent in self._spent.items()
            }

    def _concerns(self, guard: Guard, ask: DraftAsk, offers: Sequence[Draft]) -> bool:
        record = self._sessions[ask.seq]
        if guard not in record.guards or (offers and self.planner.settled(ask, offers)):
            return False
        return not (guard.costly and self.planner.too_dear(ask, guard.name, offers))

    def _modest(self, ask: DraftAsk, guard: Guard) -> DraftAsk:
        """Ask for no more than would be verified: every token takes its time."""
        return replace(ask, n_max=min(ask.n_max, self.planner.appetite(ask, guard.name)))

    def read(self, spans: Sequence[Span]) -> None:
        """Show a decoded batch to the drafters that want to see it."""
        for guard in self._readers:
            guard.read([span for span in spans if guard in self._sessions[span.seq].guards])

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Tell whoever drafted what came of it; called after every step, with an empty draft too."""
        self._verdicts[seq] = verdict
        record = self._sessions[seq]
        if source := verdict.draft.source:
            for guard in record.guards:
                if guard.name == source:
                    before = guard.total.accept.ms
                    guard.accept(seq, verdict)
                    record.statistics[source].accept.add(guard.total.accept.ms - before)
        if record.curious:
            record.judged(verdict)

    def stepped(
        self,
        rows: Mapping[SeqId, int],
        ms: float,
        reading: bool,
        aside: Aside = AT_ONCE,
        computing_ms: float | None = None,
    ) -> None:
        """A step is over: what it took, for the planner to learn from; `aside` where the next plan can do without."""
        if not reading:
            self.widths[sum(rows.values())].add(ms)
        asked = self._offers or self._spent or self._ended
        if not (asked or reading) and self.planner.rested(rows, ms, computing_ms):
            self._verdicts = {}
            return
        step = Step(rows, ms, reading, self._verdicts, self._offers, self._spent, self._asked, computing_ms)
        self._verdicts = {}
        if asked:
            self.planner.observe(step)
            self._offers, self._spent, self._asked = {}, {}, set()
            for seq in self._ended:
                self.planner.end(seq)
            self._ended.clear()
        else:
            aside.do(self.planner.observe, step)

    def end(self, seq: SeqId) -> Mapping[str, DrafterUsage]:
        """The request is over; returns what each drafter did for it."""
        record = self._sessions.pop(seq)
        self._guarded.discard(seq)
        # The planner has yet to learn from the session's last step.
        self._ended.append(seq)
        for guard in record.guards:
            guard.end(seq)
        return {name: statistics.usage() for name, statistics in record.statistics.items()}


class _SessionRecord:
    """The statistics of one request, and the offers of its latest step."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.guards = guards
        self.statistics = {guard.name: DrafterStatistics() for guard in guards}
        self._totals = {guard.name: guard.total for guard in guards}
        self._offers: list[Draft] = []
        self._claims = Claims()

    def drafted(self, guard: Guard, draft: Draft, ms: float) -> None:
        own = self.statistics[guard.name]
        own.draft.add(ms)
        if draft:
            own.offer(draft)
            guard.total.offer(draft)
            self._offers.append(draft)

    @property
    def curious(self) -> bool:
        """Whether there are offers that what is said next is compared with."""
        return bool(self._offers or self._claims)

    def judged(self, verdict: Verdict) -> None:
        for offer in self._offers:
            pair = (self.statistics[offer.source], self._totals[offer.source])
            n_verified = len(verdict.draft) if offer.source == verdict.draft.source else 0
            if n_verified:
                for statistics in pair:
                    statistics.judge(n_verified, verdict.n_accepted)
            self._claims.add(pair, offer, n_verified)
        self._offers.clear()
        self._claims.settle(verdict.tokens)
