"""Speculation in virtual time: real drafters, the real planner and known answers; a step takes what a table says.

Nothing here depends on how fast or how busy this machine is, so what the planner does can be studied, and held to its
promise by a test, for machines that are not at hand.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from foretoken.bench.oracle import OraclePlanner
from foretoken.speculation.adaptive import AdaptivePlanner
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Drafter, Verdict
from foretoken.speculation.cost import BatchCost, StepCost
from foretoken.speculation.sizing import MemoryCost
from foretoken.speculation.speculator import Speculator
from foretoken.types import SeqId, Token

MAX_DRAFT = 63
_DRAFTING_MS = 0.02
"""What asking a text drafter takes, for one slot."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What steps cost, by the number of rows, and what taking tokens back does."""

    table: dict[int, float]
    memory: MemoryCost
    noise: float = 0.0
    """How much longer than by the table a step takes, relative, on average."""
    moods: tuple[float, ...] = (1.0,)
    """How many times longer everything takes, for some dozens of steps at a time: a shared machine has such minutes."""
    max_rows: int = 128
    aftermath_ms: float = 0.0
    """What a plain step takes longer behind one that had drafts."""
    plain_alike: bool = False
    """Whether a plain step of several slots takes what one of a single slot does: a GPU repeats what it recorded."""


class VirtualClock:
    """Time that passes only when it is spent."""

    def __init__(self) -> None:
        self.now = 0.0
        """What the speculator sees, in seconds."""
        self.spent_ms = 0.0
        """What it would have been on a machine without noise and moods: what outcomes are told in."""

    def __call__(self) -> float:
        return self.now

    def spend(self, ms: float, factor: float = 1.0) -> None:
        """So much, which seemed so many times longer."""
        self.spent_ms += ms
        self.now += ms * factor / 1e3


class _TakesTime:
    """A drafter that spends virtual time on every ask."""

    def __init__(self, drafter: Drafter, clock: VirtualClock) -> None:
        self.name = drafter.name
        self.begin, self.accept, self.end = drafter.begin, drafter.accept, drafter.end
        self._draft = drafter.draft
        self._clock = clock

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        self._clock.spend(_DRAFTING_MS * len(asks))
        return self._draft(asks)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the same answers took, in milliseconds."""

    speculated_ms: float
    plain_ms: float
    limit_ms: float
    n_steps: int

    @property
    def ratio(self) -> float:
        return self.plain_ms / self.speculated_ms

    @property
    def share_of_limit(self) -> float:
        return self.limit_ms / self.speculated_ms


@dataclass(slots=True)
class _Slot:
    seq: SeqId
    tokens: list[Token]
    answer: Sequence[Token]
    n_said: int = 0
    n_cached: int = 0

    @property
    def n_pending(self) -> int:
        return len(self.tokens) - self.n_cached

    def say(self, emitted: Sequence[Token]) -> None:
        self.tokens += emitted
        self.n_said += len(emitted)


@dataclass(slots=True)
class Rehearsal:
    """A speculator that answers one group of requests after the other on an imagined machine."""

    machine: Machine
    drafters: Sequence[Drafter]
    seed: int = 0
    _clock: VirtualClock = field(init=False)
    _cost: BatchCost = field(init=False)
    _random: random.Random = field(init=False)
    speculator: Speculator = field(init=False)
    _drafted: bool = False
    _mood: float = 1.0
    _mood_lasts: int = 0

    def __post_init__(self) -> None:
        self._clock = VirtualClock()
        self._cost = BatchCost(StepCost(self.machine.table), self.machine.memory.replays)
        self._random = random.Random(self.seed)
        planner = AdaptivePlanner(StepCost(self.machine.table), self.machine.memory)
        drafters = [_TakesTime(drafter, self._clock) for drafter in self.drafters]
        self.speculator = Speculator(drafters, planner, 1 << 30, clock=self._clock)

    def answer(self, requests: Sequence[tuple[Sequence[Token], Sequence[Token]]], owner: str) -> Outcome:
        """Answer all requests (prompt, answer) at once, each in a slot of its own."""
        slots = [_Slot(seq, list(prompt), answer) for seq, (prompt, answer) in enumerate(requests)]
        for slot in slots:
            self.speculator.begin(slot.seq, slot.tokens, owner)
            # The prompt's last row gives the first token.
            slot.say(slot.answer[:1])
            slot.n_cached = len(slot.tokens) - 1
            self.speculator.accept(slot.seq, Verdict(NO_DRAFT, tuple(slot.answer[:1]), 0))
        self.speculator.stepped({slot.seq: len(slot.tokens) for slot in slots}, 1.0, reading=True)
        started, n_steps, plain = self._clock.spent_ms, 0, 0
        while active := self._unfinished(slots):
            self._step(active)
            n_steps += 1
        spent = self._clock.spent_ms - started
        plain_ms = 0.0
        while lengths := [1 for slot in slots if len(slot.answer) - 1 > plain]:
            plain_ms += self._step_ms(lengths)
            plain += 1
        return Outcome(spent, plain_ms, self._limit_ms(slots), n_steps)

    def _step_ms(self, rows: Sequence[int]) -> float:
        alike = self.machine.plain_alike and max(rows) == 1
        return self._cost.curve(1) if alike else self._cost(rows)

    def _unfinished(self, slots: Sequence[_Slot]) -> list[_Slot]:
        active = []
        for slot in slots:
            if slot.n_said < len(slot.answer):
                active.append(slot)
            elif slot.n_said == len(slot.answer):
                slot.n_said += 1
                self.speculator.end(slot.seq)
        return active

    def _step(self, slots: Sequence[_Slot]) -> None:
        self._change_mood()
        started = self._clock.now
        asks = [self._ask(slot) for slot in slots]
        drafts = self.speculator.draft([ask for ask in asks if ask.n_max > 0])
        rows = {slot.seq: slot.n_pending + len(drafts.get(slot.seq, NO_DRAFT)) for slot in slots}
        self._pass(self._step_ms(tuple(rows.values())))
        if self._drafted and not drafts:
            self._pass(self.machine.aftermath_ms)
        self._drafted = bool(drafts)
        for slot in slots:
            self._settle(slot, drafts.get(slot.seq, NO_DRAFT))
        self.speculator.stepped(rows, (self._clock.now - started) * 1e3, reading=False)

    def _ask(self, slot: _Slot) -> DraftAsk:
        left = len(slot.answer) - slot.n_said - 1
        return DraftAsk(slot.seq, slot.tokens, min(MAX_DRAFT, left), slot.n_pending)

    def _settle(self, slot: _Slot, draft: Draft) -> None:
        truth = slot.answer[slot.n_said : slot.n_said + len(draft) + 1]
        n_right = next((i for i, token in enumerate(draft.tokens) if token != truth[i]), len(draft))
        start = slot.n_cached
        slot.say(truth[: n_right + 1])
        slot.n_cached = len(slot.tokens) - 1
        memory = self.machine.memory
        if draft:
            self._pass(memory.protect_ms)
        if n_right < len(draft):
            self._pass(memory.rewind_ms)
            slot.n_cached = start if memory.replays else slot.n_cached
        self.speculator.accept(slot.seq, Verdict(draft, tuple(truth[: n_right + 1]), n_right))

    def _pass(self, ms: float) -> None:
        self._clock.spend(ms, self._mood * (1 + self.machine.noise * self._random.expovariate(1)))

    def _change_mood(self) -> None:
        self._mood_lasts -= 1
        if self._mood_lasts <= 0:
            self._mood, self._mood_lasts = self._random.choice(self.machine.moods), self._random.randint(20, 150)

    def _limit_ms(self, slots: Sequence[_Slot]) -> float:
        """What an oracle would take that knows every answer and cuts them as they are cheapest."""
        n, left, total = len(slots), max(len(slot.answer) for slot in slots) - 1, 0.0
        oracle = OraclePlanner(self._cost.curve, self.machine.memory.protect_ms, self.machine.max_rows)
        while left > 0:
            width = oracle.width(n, left)
            total += self._cost((width,) * n) + self.machine.memory.protect_ms * n * (width > 1)
            left -= width
        return total
