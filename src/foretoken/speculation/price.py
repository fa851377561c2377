"""Whether a request can afford to ask a drafter whose guesses take long."""

from __future__ import annotations

from dataclasses import dataclass

from foretoken.speculation.ledger import MAX_LOSS, Ledger

_NEWS = 0.2
_ADVANCE_STEPS = 3.0
"""Plain steps that a request may spend on a drafter in advance."""
_AGAIN_STEPS = 1.5
"""Plain steps that it may spend on asking again, however long the first ask took."""
_FORGIVEN = 2
"""Requests without a drafter that lost time, after which it gets another chance; twice as many the next time."""
_NEVER_LONGER = 4
_GREAT_STEPS = 15.0
"""Plain steps saved in a request that make up for three in which it lost."""
_GREAT = 3.0


@dataclass(slots=True)
class _Account:
    """What is known of one drafter, over all requests."""

    vain_ms: float = 0.0
    """What asking again takes when nothing comes of it."""
    score: float = 0.0
    """-1 if it lost time in all requests lately (how much says more about the machine), up to 3 if it saved much."""
    n_without: int = 0
    """Requests since one asked it."""
    n_forgiven: int = _FORGIVEN

    @property
    def disappoints(self) -> bool:
        return self.score <= -0.5

    def learn(self, saved_ms: float, plain_ms: float) -> None:
        """A request is over for which it was asked."""
        verdict = min(_GREAT, _GREAT * saved_ms / (_GREAT_STEPS * plain_ms)) if saved_ms > 0 else -1.0
        if saved_ms > 0:
            self.n_forgiven = _FORGIVEN
        elif self.disappoints:
            self.n_forgiven = min(_NEVER_LONGER, 2 * self.n_forgiven)
        self.score += (verdict - self.score) / 2
        self.n_without = 0


class Prices:
    """What asking each drafter takes when nothing comes of it, and what it saved requests lately.

    The first ask of a request takes longest, for the drafter reads the text. It is an advance to a drafter that is
    trusted; whether it is asked again depends on what came of that, and on what the next ask would take.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        """Of those whose price was asked for."""

    def paid_in_vain(self, source: str, ms: float, ledger: Ledger) -> None:
        """An ask took so long, and its answer was none, or wrong."""
        account = self._accounts.get(source)
        if account and source in ledger.by_drafter:
            account.vain_ms += _NEWS * (ms - account.vain_ms)

    def over(self, ledger: Ledger, plain_ms: float) -> None:
        """A request is over: learn what each drafter saved it."""
        for source, account in self._accounts.items():
            saved_ms = ledger.by_drafter.get(source)
            if saved_ms is None:
                account.n_without += 1
            else:
                account.learn(saved_ms, plain_ms)

    def affordable(self, source: str, ledger: Ledger, plain_ms: float, alone: bool = True) -> bool:
        """Whether it would not have lost the request more than it may if the answer were of no use.

        Where others would wait for the first reading too, there are no second chances.
        """
        account = self._accounts.setdefault(source, _Account())
        saved_ms = ledger.by_drafter.get(source)
        if saved_ms is None:
            if not alone:
                return account.score >= 0
            return not account.disappoints or account.n_without >= account.n_forgiven
        spare_ms = max(_ADVANCE_STEPS * plain_ms - ledger.advances[source], _AGAIN_STEPS * plain_ms)
        allowed_ms = MAX_LOSS * ledger.elapsed_ms + spare_ms
        return saved_ms + ledger.advances[source] - account.vain_ms >= -allowed_ms
