"""Whether a request can afford to ask a drafter whose guesses take long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from foretoken.speculation.ledger import MAX_LOSS, Ledger
from foretoken.types import SeqId

_NEWS = 0.2
_ADVANCE_STEPS = 3.0
"""Plain steps that a request may spend on a drafter in advance."""
_AGAIN_STEPS = 1.5
"""Plain steps that it may spend on asking again, however long the first ask took."""
_GREAT_STEPS = 15.0
"""Plain steps saved in a request that make up for three in which it lost."""
_GREAT = 3.0
_PURSE_STEPS = 8.0
"""Plain steps that a drafter may have put by at most."""
_SPENT = 0.25
"""How much of that it may lose in one request."""
_TOKEN_STEPS = 0.15
"""Plain steps that each token of a draft is thought to take before there was one."""
_FEW = 2
"""Drafts of fewer tokens took too long for other reasons to say what a token takes."""
_STUMBLED = 2.0
"""A proof that took more times longer than those before it was held up."""
_DEARER = 4
"""How many times what it took a failed proof is charged for at most, when those before it failed too."""
_KNOWN = 0.1
"""A draft that takes so small a part of what its tokens take was there already, and says nothing of that."""
_FASTER, _SLOWER = 0.5, 0.02
"""How much of what a token is thought to take one draft replaces: mostly, those that took longer had other reasons."""
_ASK_NEWS = 0.1
"""How much of what asking for a slot is thought to take one ask replaces."""
_HELD_UP = 3.0
"""An ask that took many times longer than those before it counts as so many times, not as more."""


@dataclass(slots=True)
class _Account:
    """What is known of one drafter, over all requests."""

    vain_ms: float = 0.0
    """What asking again takes when nothing comes of it."""
    token_steps: float = _TOKEN_STEPS
    """Plain steps that each token takes that it is asked for."""
    can_prove: bool = False
    """Whether it has hindsight."""
    proof_ms: float | None = None
    """What that takes."""
    n_failed: int = 0
    """Proofs in a row that it failed."""
    score: float = 0.0
    """-1 if it lost time in all requests lately (how much says more about the machine), up to 3 if it saved much."""
    purse_ms: float = 0.0
    """What it may lose: a share of all time spent, and what it saved, less what it lost."""
    lost_ms: float = 0.0
    """What it lost in the latest request that it made slower."""
    saved_share: float = 0.0
    """What it saved lately of the time of requests, against that time."""

    def learn(self, saved_ms: float, elapsed_ms: float, plain_ms: float) -> None:
        """A request is over for which it was asked."""
        self.saved_share += (max(0.0, saved_ms) / max(elapsed_ms, plain_ms) - self.saved_share) / 2
        verdict = min(_GREAT, _GREAT * saved_ms / (_GREAT_STEPS * plain_ms)) if saved_ms > 0 else -1.0
        self.score += (verdict - self.score) / 2
        if saved_ms <= 0:
            self.lost_ms = -saved_ms


class Prices:
    """What asking each drafter takes when nothing comes of it, and what it saved requests lately.

    The first ask of a request takes longest, for the drafter reads the text. It is an advance to a drafter that is
    trusted; whether it is asked again depends on what came of that, and on what the next ask would take. One that lost
    trust must show that it would have guessed what was said so far, as often as its share of the time pays for that.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._ask_ms = 0.0

    def asked(self, drafting: Mapping[SeqId, Mapping[str, float]]) -> float:
        """What it took to ask for some slots, planning included; returns what it takes for one of them.

        Those whose guesses take long are paid by the token: where one was asked too, the rest is not to be told apart.
        """
        if drafting and not any(self.can_prove(source) for spent in drafting.values() for source in spent):
            ms = sum(sum(spent.values()) for spent in drafting.values()) / len(drafting)
            known_ms = self._ask_ms or ms
            self._ask_ms = known_ms + _ASK_NEWS * (min(ms, _HELD_UP * known_ms) - known_ms)
        return self._ask_ms

    def paid(self, source: str, ms: float, n_offered: int, plain_ms: float) -> None:
        """An ask took so long, and so many tokens came of it."""
        account = self._accounts.get(source)
        if account is None or n_offered < _FEW:
            return
        token_steps = ms / (n_offered + 1) / plain_ms
        if token_steps > _KNOWN * account.token_steps:
            more = token_steps - account.token_steps
            account.token_steps += more * (_SLOWER if more > 0 else _FASTER)

    def paid_in_vain(self, source: str, ms: float, ledger: Ledger) -> None:
        """An ask took so long, and its answer was none, or wrong."""
        account = self._accounts.get(source)
        if account and source in ledger.by_drafter:
            account.vain_ms += _NEWS * (ms - account.vain_ms)

    def over(self, ledger: Ledger, plain_ms: float) -> None:
        """A request is over: learn what each drafter saved it."""
        for source in {*self._accounts, *ledger.by_drafter}:
            account, saved_ms = self._account(source), ledger.by_drafter.get(source)
            purse_ms = account.purse_ms + MAX_LOSS * ledger.elapsed_ms + (saved_ms or 0.0)
            account.purse_ms = min(_PURSE_STEPS * plain_ms, purse_ms)
            if saved_ms is not None:
                account.learn(saved_ms, ledger.elapsed_ms, plain_ms)

    def trusts(self, source: str, alone: bool) -> bool:
        """Whether a request may ask it without proof; where others would wait for the reading, not after a loss."""
        account = self._account(source)
        if account.can_prove:
            return account.score > 0
        if not alone:
            return account.score >= 0
        return account.score > -0.5 or account.purse_ms >= account.lost_ms

    def pays_for_proof(self, source: str, ledger: Ledger, n_slots: int = 1) -> bool:
        """Whether it has put by what it takes to see whether it would have guessed right; the first is free.

        All slots wait for it, and each of them puts by.
        """
        account = self._account(source)
        if account.proof_ms is None:
            return True
        put_by_ms = account.purse_ms + MAX_LOSS * ledger.elapsed_ms + ledger.by_drafter.get(source, 0.0)
        return put_by_ms >= n_slots * account.proof_ms

    def demand_proof(self, source: str) -> None:
        """It has hindsight, and is to win trust by that."""
        self._account(source).can_prove = True

    def proved(self, source: str, passed: bool, ms: float) -> None:
        """It was found out whether it would have guessed right, and that took so long."""
        account = self._account(source)
        account.purse_ms -= 0.0 if passed else min(_DEARER - 1, account.n_failed) * ms
        account.n_failed = 0 if passed else account.n_failed + 1
        known_ms = ms if account.proof_ms is None else account.proof_ms
        account.proof_ms = known_ms + _NEWS * (min(ms, _STUMBLED * known_ms) - known_ms)

    def purse_ms(self, source: str, ledger: Ledger) -> float:
        """What it may lose, whatever others lost: some of what it has put by, half of what it saved this request."""
        account = self._accounts.get(source)
        if account is None:
            return 0.0
        saved_ms = ledger.by_drafter.get(source, 0.0)
        return _SPENT * account.purse_ms + (saved_ms / 2 if saved_ms > 0 else saved_ms)

    @property
    def provable(self) -> Sequence[str]:
        """Drafters that can win trust by proof."""
        return [source for source, account in self._accounts.items() if account.can_prove]

    def can_prove(self, source: str) -> bool:
        """Whether it can win trust by proof."""
        return self._account(source).can_prove

    def saved_share(self) -> float:
        """What the best of those that take long saved lately of the time of requests, against that time.

        Others are asked in any case when an answer begins; how a text of theirs went says nothing about the next.
        """
        return max((account.saved_share for account in self._accounts.values() if account.can_prove), default=0.0)

    def token_steps(self, source: str) -> float:
        """Plain steps that each token takes that it is asked for."""
        return self._account(source).token_steps

    def affordable(self, source: str, ledger: Ledger, plain_ms: float) -> bool:
        """Whether it would not have lost the request more than it may if the answer were of no use."""
        account = self._account(source)
        saved_ms = ledger.by_drafter.get(source)
        if saved_ms is None:
            return True
        saved_ms += ledger.forgiven.get(source, 0.0)
        spare_ms = max(_ADVANCE_STEPS * plain_ms - ledger.advances[source], _AGAIN_STEPS * plain_ms)
        allowed_ms = MAX_LOSS * ledger.elapsed_ms + spare_ms
        return saved_ms + ledger.advances[source] - account.vain_ms >= -allowed_ms

    def _account(self, source: str) -> _Account:
        return self._accounts.setdefault(source, _Account())
