"""How likely a drafter's tokens really are: its confidences, corrected by what became of them."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from math import log2

from foretoken.speculation.base import Draft
from foretoken.types import SeqId, Token

_BUCKETS = 12
_PRIOR = 4.0
"""Weight, in judged tokens, of the drafter's own word before anything is known."""
STREAKS = ((2, 4.0), (5, 3.0), (12, 2.0), (1 << 30, 1.5))
"""Runs of right tokens, and how many times its own doubt a drafter is doubted in them before anything is known."""
_NEVER = STREAKS[-1][0]
_LIMITS = tuple(limit for limit, _ in STREAKS)
_RISKS = (0.25, 0.2, 0.1, 0.05)
"""The chance that is always reckoned with in such a run that not even the first token is right."""
_MEMORY = 0.99
"""What a bucket keeps of its past with every new token: the last hundred decide."""
_SESSION_MEMORY = 0.75
"""Texts change character within a few drafts."""
_SESSION_PRIOR = 1.0
_DOUBT_MEMORY = 0.97
"""Likewise, token by token, where confidences are probabilities."""
_DOUBT_PRIOR = 1.0
"""Weight of a session's doubt being what it is elsewhere, in wrong tokens."""
_DOUBT_LEAST, _DOUBT_MOST = 0.2, 2.0
_ACCURATE = 8.0
"""Tokens that must have been judged in a session to count as much as what is thought before."""
_SURE = 0.9995
_HOPELESS = 0.02
"""Tokens less likely than this to be reached are not worth a thought."""
_MAX_KNOWN = 4096


@dataclass(slots=True)
class _Bucket:
    right: float = 0.0
    judged: float = 0.0

    def learn(self, right: bool) -> None:
        self.right = self.right * _MEMORY + right
        self.judged = self.judged * _MEMORY + 1

    def probability(self, expected: float) -> float:
        return (self.right + _PRIOR * expected) / (self.judged + _PRIOR)

    @property
    def risk(self) -> float:
        """The chance of being wrong, if two more had been."""
        return (self.judged - self.right + 2) / (self.judged + 4)


@dataclass(slots=True)
class _Trust:
    """How one drafter fared in one session lately."""

    streak: int = 0
    right: float = 0.0
    expected: float = 0.0
    """Of first tokens: so many were right, and so many should have been."""
    judged: float = 0.0
    wrong: float = 0.0
    doubted: float = 0.0
    """Of all tokens: so many were wrong, and so many should have been."""

    @property
    def factor(self) -> float:
        """How much a draft is to be believed whose doubt sits where it begins: whether this is the place at all."""
        return min(1.0, (self.right + _SESSION_PRIOR) / (self.expected + _SESSION_PRIOR))

    @property
    def doubt(self) -> float:
        """How many times as often as it says itself a drafter is wrong whose confidences are probabilities."""
        ratio = (self.wrong + _DOUBT_PRIOR) / (self.doubted + _DOUBT_PRIOR)
        return min(_DOUBT_MOST, max(_DOUBT_LEAST, ratio))

    def learn_first(self, right: bool, expected: float) -> None:
        self.right = self.right * _SESSION_MEMORY + right
        self.expected = self.expected * _SESSION_MEMORY + expected

    def learn(self, right: bool, expected: float) -> None:
        self.judged = self.judged * _DOUBT_MEMORY + 1
        self.wrong = self.wrong * _DOUBT_MEMORY + (not right)
        self.doubted = self.doubted * _DOUBT_MEMORY + 1 - expected


@dataclass(slots=True)
class Acceptance:
    """Turns confidences into probabilities, by drafter, confidence and tokens right before, and by session.

    A drafter that copies is right as long as it is at the right place, so that what was right before says most. Of one
    whose confidences are probabilities every token tells as much, and a text that it knows it doubts too much.
    """

    calibrated: set[str] = field(default_factory=set)
    """Drafters whose confidences are probabilities, as a model's are."""
    _buckets: dict[tuple[str, int, int], _Bucket] = field(default_factory=dict)
    _trust: defaultdict[SeqId, dict[str, _Trust]] = field(default_factory=lambda: defaultdict(dict))
    _doubts: dict[float, int] = field(default_factory=dict)
    _standing: defaultdict[SeqId, dict[str, tuple[Draft, int]]] = field(default_factory=lambda: defaultdict(dict))
    """Offers that were right so far, and how far: a drafter need not be asked again to be judged by the rest."""

    def reach(self, seq: SeqId, draft: Draft) -> list[float]:
        """For each token the probability that it and all before it are right, as far as that is worth a thought."""
        found: list[float] = []
        trust = self._trusted(seq, draft.source)
        total, doubted, run = trust.factor, trust.doubt, self._run(draft.source, trust.streak)
        limit = _NEVER if draft.source in self.calibrated else STREAKS[run][0]
        latest, p = -1, 0.0
        for n_right, stated in enumerate(draft.confidence, trust.streak):
            # This happens at every step, for every token of every offer: tokens of one class are believed alike.
            if n_right >= limit:
                run, latest = run + 1, -1
                limit = STREAKS[run][0]
            doubt = self._doubts.get(stated)
            if doubt is None or doubt != latest:
                latest = self._doubt(stated)
                p = 1.0 - min(1.0, (1.0 - self._chance(draft.source, run, stated)) * doubted)
            total *= p
            if total < _HOPELESS:
                break
            found.append(total)
        return found

    def _chance(self, source: str, run: int, stated: float) -> float:
        bucket = self._buckets.get((source, run, self._doubt(stated)))
        expected = self._believed(source, stated, run)
        return min(_SURE, expected if bucket is None else bucket.probability(expected))

    def first(self, seq: SeqId, draft: Draft) -> float:
        """The probability that a draft's first token is right."""
        return next(iter(self.reach(seq, draft.cut(1))), 0.0)

    def learn(self, seq: SeqId, offer: Draft, emitted: Sequence[Token], start: int = 0) -> None:
        """Compare an offer, from a place on, with what was said instead, verified or not: to look costs nothing."""
        trust, standing = self._trusted(seq, offer.source), self._standing[seq]
        end = min(start + len(emitted), len(offer.tokens))
        for at in range(start, end):
            right, stated = offer.tokens[at] == emitted[at - start], offer.confidence[at]
            run = self._run(offer.source, trust.streak)
            bucket = self._bucket(offer.source, run, stated)
            believed = bucket.probability(self._believed(offer.source, stated, run))
            if offer.source in self.calibrated:
                trust.learn(right, believed)
            elif at == start:
                trust.learn_first(right, believed)
            bucket.learn(right)
            if not right:
                trust.streak = 0
                standing.pop(offer.source, None)
                return
            trust.streak += 1
        if end < len(offer.tokens):
            standing[offer.source] = offer, end
        else:
            standing.pop(offer.source, None)

    def look_back(self, seq: SeqId, guesses: Draft, said: Sequence[Token]) -> None:
        """Compare what a drafter would have guessed, each token from all before it, with what was said instead."""
        for guess, stated, token in zip(guesses.tokens, guesses.confidence, said, strict=True):
            self.learn(seq, Draft((guess,), (stated,), guesses.source), (token,))

    def _bucket(self, source: str, run: int, stated: float) -> _Bucket:
        key = (source, run, self._doubt(stated))
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket()
        return bucket

    def overhear(self, seq: SeqId, asked: Container[str], emitted: Sequence[Token]) -> bool:
        """Judge those that were not asked this time by what they offered before; False if nothing was left of that."""
        standing = self._standing.get(seq)
        if not standing:
            return False
        for offer, start in tuple(standing.values()):
            if offer.source not in asked:
                self.learn(seq, offer, emitted, start)
        return True

    @property
    def listens(self) -> bool:
        """Whether something that was offered is still being compared with what is said."""
        return any(self._standing.values())

    def streak(self, seq: SeqId, source: str) -> int:
        """How many tokens of this drafter were right in a row."""
        return self._trusted(seq, source).streak

    def longest_streak(self, seq: SeqId) -> int:
        """How many tokens the best drafter of a session had right in a row."""
        return max((trust.streak for trust in self._trust[seq].values()), default=0)

    def risk(self, seq: SeqId, source: str, stated: float, n_slots: int = 1) -> float:
        """The least chance of being wrong that is believed; who is certain (of forced tokens, say) has its reasons.

        Where several slots would wait for a mistake, as many times more must be known to think it less likely.
        """
        if stated == 1.0:
            return 0.0
        streak = self._trusted(seq, source).streak
        bucket = self._buckets.get((source, self._run(source, streak), self._doubt(stated)))
        least = _RISKS[_run(streak)]
        return least if bucket is None else min(least, bucket.risk * n_slots)

    def accuracy(self, seq: SeqId, source: str, expected: float) -> float:
        """How many of the tokens of a drafter whose confidences are probabilities were right lately."""
        trust = self._trusted(seq, source)
        return (trust.judged - trust.wrong + _ACCURATE * expected) / (trust.judged + _ACCURATE)

    def forget_offers(self, seq: SeqId) -> None:
        """What was offered to a session so far is not compared with what it says any more."""
        self._standing.pop(seq, None)

    def forget(self, seq: SeqId) -> None:
        """A session is over."""
        self._trust.pop(seq, None)
        self._standing.pop(seq, None)

    def _doubt(self, stated: float) -> int:
        """Which class of confidence this is: equal steps of doubt, for 0.9 and 0.99 are worlds apart."""
        known = self._doubts.get(stated)
        if known is None:
            if len(self._doubts) > _MAX_KNOWN:
                self._doubts.clear()
            known = min(_BUCKETS - 1, int(-3.0 * log2(max(1e-3, 1.0 - stated)))) if stated > 0.3 else 0
            self._doubts[stated] = known
        return known

    def _believed(self, source: str, stated: float, run: int) -> float:
        """A drafter's own word before anything is known."""
        return stated if source in self.calibrated else float(stated ** STREAKS[run][1])

    def _run(self, source: str, n_right: int) -> int:
        """Which kind of run a token is in, where that says anything."""
        return 0 if source in self.calibrated else _run(n_right)

    def _trusted(self, seq: SeqId, source: str) -> _Trust:
        return self._trust[seq].setdefault(source, _Trust())


def _run(n_right: int) -> int:
    """Which kind of run it is after so many right tokens: a drafter that has been right for long is likely to go on."""
    return bisect_right(_LIMITS, n_right)
