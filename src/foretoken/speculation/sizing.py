"""How long drafts should be: expected tokens against expected milliseconds, for one slot or for all together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, log

from foretoken.speculation.base import Draft
from foretoken.speculation.cost import BatchCost
from foretoken.types import SeqId

_LENGTHS = (1, 2, 3, 5, 7, 11, 15, 19, 27, 31, 47, 63)
"""Lengths that several slots draft together; equal ones are cheapest."""
_HARDLY = 0.9
"""Some widths are a little cheaper than narrower ones."""
_WAIT = 1.5
"""How many times as long as a plain step one may take in which a slot without a draft waits for those of others."""
_KNOWN_CHANCE = 0.35
"""Chances of losing up to this are known well enough to be counted on."""


@dataclass(frozen=True, slots=True)
class MemoryCost:
    """What taking tokens back costs, and whether what was accepted must be decoded again."""

    protect_ms: float = 0.0
    rewind_ms: float = 0.0
    replays: bool = False


@dataclass(slots=True)
class Bet:
    """One offer as the planner sees it: `reach[i]` is the probability that token i is emitted."""

    seq: SeqId
    draft: Draft
    reach: list[float]
    n_pending: int
    n_min: int
    margin: float
    """How much more than a plain step it must promise."""
    credit: float
    """Milliseconds that may be lost with it, on average."""
    purse: float
    """Milliseconds that may be lost with it at worst, whatever the chance."""
    risk: float
    """The least chance of losing that is believed."""
    n_free: int
    """So many tokens may be bet whatever that risks."""
    n: int = 0
    sums: list[float] = field(init=False)
    """Expected tokens of the first n."""

    def __post_init__(self) -> None:
        self.sums = list(accumulate(self.reach, initial=0.0))


class Sizing:
    """Fixes the lengths of drafts so that the slots' speeds, multiplied, are as high as can be expected.

    For one slot that is its tokens per millisecond. For several it is fair: all of them wait for the draft of one, so
    it must win more than they lose together. What must be decoded again anyway after a cut is spent in any case, and
    must not make a doubtful draft look cheap beside it.
    """

    def __init__(self, cost: BatchCost, memory: MemoryCost) -> None:
        self.cost = cost
        self.memory = memory
        self.switch_ms = 0.0
        """What a draft costs beyond its own step if the step before it had none."""
        self.ask_ms = 0.0
        """What asking for a draft for a slot takes, planning included: who goes on drafting goes on asking."""

    def alone(self, bet: Bet) -> float:
        """Size a bet as if its slot were the only one, and say what it is then worth.

        Since t(width) is neither smooth nor monotonic every measured width is looked at.
        """
        cost = self.cost.curve
        plain_ms = cost(1)
        sunk_ms = cost(bet.n_pending) - plain_ms
        best, bet.n = log(bet.margin) - log(plain_ms), 0
        for n in self._lengths(bet):
            ms = max(plain_ms, cost(bet.n_pending + n) - sunk_ms) + self.switch_ms
            if self._bearable(bet, n, ms - plain_ms, plain_ms):
                value = log((1 + bet.sums[n]) / (ms + self.ask_ms + self._overhead(bet, n, 1)))
                if value > best:
                    best, bet.n = value, n
        return best

    def _lengths(self, bet: Bet) -> Iterator[int]:
        """Those that make a width that was measured, and the whole."""
        longest = len(bet.reach)
        for width in self.cost.curve.widths:
            if bet.n_pending < width < bet.n_pending + longest:
                yield width - bet.n_pending
        yield longest

    def together(self, bets: Sequence[Bet], waiting: Sequence[int]) -> None:
        """Size the bets of several slots; `waiting` are the rows of the slots that have none."""
        n_slots = len(bets) + len(waiting)
        plain_ms = self.cost((1,) * n_slots)
        sunk_ms = max(0.0, self.cost([*waiting, *(bet.n_pending for bet in bets)]) - plain_ms)
        # What it took to ask all of them is spent, whatever comes of it; a slot alone must win it back.
        best, chosen = -n_slots * log(plain_ms + n_slots * self.ask_ms), [0] * len(bets)
        wholes = [len(bet.reach) for bet in bets]
        for longest in _LENGTHS:
            wanted = [min(longest, whole) for whole in wholes]
            if sunk_ms or self._hoped(bets, wanted, n_slots) > best:
                lengths = [0] * len(bets)
                for which in sorted(range(len(bets)), key=lambda i: bets[i].sums[wanted[i]], reverse=True):
                    lengths[which] = wanted[which]
                    value = self._worth(bets, lengths, waiting, plain_ms, sunk_ms)
                    if value > best:
                        best, chosen = value, list(lengths)
            if wanted == wholes:
                break
        for bet, n in zip(bets, chosen, strict=True):
            bet.n = n

    def _hoped(self, bets: Sequence[Bet], lengths: Sequence[int], n_slots: int) -> float:
        """What drafts of these lengths could be worth at most: if all of them cost hardly what the shortest does."""
        gains = [(1 + bet.sums[n]) / bet.margin for bet, n in zip(bets, lengths, strict=True)]
        ms = self.cost((*(1,) * (n_slots - 1), 1 + min(lengths)))
        return sum(log(gain) for gain in gains if gain > 1) - n_slots * log(_HARDLY * ms + n_slots * self.ask_ms)

    def replay_ms(self, n: int, n_slots: int) -> float:
        """What it adds to a plain step that `n` tokens of one slot are decoded in it once more."""
        if n_slots == 1:
            return max(0.0, self.cost.curve(1 + n) - self.cost.curve(1))
        others = (1,) * (n_slots - 1)
        # Plain steps are known apart from others: what is measured of both need not fit together.
        return max(0.0, self.cost((*others, 1 + n)) - self.cost((*others, 1)))

    def _worth(
        self, bets: Sequence[Bet], lengths: Sequence[int], waiting: Sequence[int], plain_ms: float, sunk_ms: float
    ) -> float:
        """The logarithm of the slots' speeds, multiplied; no speed at all if a slot could not bear to lose its part."""
        rows = [*waiting, *(bet.n_pending + n for bet, n in zip(bets, lengths, strict=True))]
        ms = max(plain_ms, self.cost(rows) - sunk_ms) + self.switch_ms
        extra_ms = ms - plain_ms
        if self.too_long(ms, plain_ms) and (waiting or not all(lengths)):
            return float("-inf")
        value = 0.0
        for bet, n in zip(bets, lengths, strict=True):
            if n:
                if not self._bearable(bet, n, extra_ms, plain_ms):
                    return float("-inf")
                value += log((1 + bet.sums[n]) / bet.margin)
                ms += self._overhead(bet, n, len(rows))
        return value - len(rows) * log(ms + len(rows) * self.ask_ms)

    def too_long(self, ms: float, plain_ms: float) -> bool:
        """Whether a step that takes so long is too much to ask of a slot that has no draft in it."""
        return ms > _WAIT * plain_ms

    def _bearable(self, bet: Bet, n: int, extra_ms: float, plain_ms: float) -> bool:
        """Whether the slot can bear what would be lost, times the chance that not even as much is won."""
        even = min(n, ceil(extra_ms / plain_ms))
        if n <= bet.n_free or even == 0:
            return True
        chance = max(bet.risk, 1.0 - bet.reach[even - 1])
        return extra_ms * (chance if chance <= _KNOWN_CHANCE else 1.0) <= bet.credit or extra_ms <= bet.purse

    def _overhead(self, bet: Bet, n: int, n_slots: int) -> float:
        return self.overhead_ms(bet.n_pending, bet.sums[n], 1.0 - bet.reach[n - 1], n_slots)

    def overhead_ms(self, n_pending: int, n_expected: float, cut: float, n_slots: int) -> float:
        """Protecting, and if the draft is cut, of which there is a chance: rewinding, and decoding once more."""
        replay = 0.0
        if self.memory.replays:
            # Of the tokens that would be accepted, a cut leaves about half.
            replay = self.replay_ms(round(n_pending + n_expected / 2), n_slots)
        return self.memory.protect_ms + cut * (self.memory.rewind_ms + replay)
