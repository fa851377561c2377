"""How likely a drafter's tokens really are: its confidences, corrected by what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log2

from foretoken.speculation.base import Draft
from foretoken.types import SeqId, Token

_BUCKETS = 12
_PRIOR = 4.0
"""Weight, in judged tokens, of the drafter's own word before anything is known."""
_STREAKS = ((2, 0.6), (5, 0.8), (12, 0.92), (1 << 30, 0.97))
"""Runs of right first tokens, and how far a drafter's own word is believed in them before anything is known."""
_MEMORY = 0.98
"""What a bucket keeps of its past with every new token: the last fifty decide."""
_SESSION_MEMORY = 0.75
"""Texts change character within a few drafts."""
_SESSION_PRIOR = 1.0
_SURE = 0.995
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


@dataclass(slots=True)
class _Trust:
    """First tokens that were right against those expected to be, of one drafter in one session, lately."""

    right: float = 0.0
    expected: float = 0.0
    streak: int = 0

    @property
    def run(self) -> int:
        """Which kind of run this is: a drafter that has been right for long is likely to go on."""
        return next(i for i, (limit, _) in enumerate(_STREAKS) if self.streak < limit)

    @property
    def factor(self) -> float:
        return min(1.0, (self.right + _SESSION_PRIOR) / (self.expected + _SESSION_PRIOR))

    def learn(self, right: bool, expected: float) -> None:
        self.right = self.right * _SESSION_MEMORY + right
        self.expected = self.expected * _SESSION_MEMORY + expected
        self.streak = self.streak + 1 if right else 0


@dataclass(slots=True)
class Acceptance:
    """Turns confidences into probabilities, by drafter, confidence and position, and by session."""

    _buckets: dict[tuple[str, int, int, int], _Bucket] = field(default_factory=dict)
    _trust: dict[tuple[SeqId, str], _Trust] = field(default_factory=dict)
    _doubts: dict[float, int] = field(default_factory=dict)

    def reach(self, seq: SeqId, draft: Draft) -> list[float]:
        """For each token the probability that it and all before it are right, as far as that is worth a thought."""
        found: list[float] = []
        # Doubt sits where a draft begins: whether this is the place at all.
        trust = self._trusted(seq, draft.source)
        run, total = trust.run, trust.factor
        known: dict[tuple[float, int], float] = {}
        for position, stated in enumerate(draft.confidence):
            kind = (stated, position if position < 2 else 2)
            p = known.get(kind)
            if p is None:
                bucket = self._buckets.get((draft.source, run, self._doubt(stated), kind[1]))
                expected = _believed(run, stated)
                known[kind] = p = min(_SURE, expected if bucket is None else bucket.probability(expected))
            total *= p
            if total < _HOPELESS:
                break
            found.append(total)
        return found

    def learn(self, seq: SeqId, offer: Draft, emitted: Sequence[Token]) -> None:
        """Compare an offer with what was said instead, verified or not: to look costs nothing."""
        trust = self._trusted(seq, offer.source)
        run = trust.run
        for position, (guess, token) in enumerate(zip(offer.tokens, emitted, strict=False)):
            stated = offer.confidence[position]
            key = (offer.source, run, self._doubt(stated), min(position, 2))
            bucket = self._buckets.setdefault(key, _Bucket())
            if position == 0:
                trust.learn(guess == token, bucket.probability(_believed(run, stated)))
            bucket.learn(guess == token)
            if guess != token:
                return

    def forget(self, seq: SeqId) -> None:
        """A session is over."""
        self._trust = {key: trust for key, trust in self._trust.items() if key[0] != seq}

    def _doubt(self, stated: float) -> int:
        """Which class of confidence this is: equal steps of doubt, for 0.9 and 0.99 are worlds apart."""
        known = self._doubts.get(stated)
        if known is None:
            if len(self._doubts) > _MAX_KNOWN:
                self._doubts.clear()
            known = min(_BUCKETS - 1, int(-3.0 * log2(max(1e-3, 1.0 - stated)))) if stated > 0.3 else 0
            self._doubts[stated] = known
        return known

    def _trusted(self, seq: SeqId, source: str) -> _Trust:
        return self._trust.setdefault((seq, source), _Trust())


def _believed(run: int, stated: float) -> float:
    """A drafter's own word before anything is known; one that is certain (of forced tokens, say) has its reasons."""
    return stated if stated == 1.0 else _STREAKS[run][1] * stated
