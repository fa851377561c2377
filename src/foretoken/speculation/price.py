"""Whether a request can afford to ask a drafter whose guesses take long."""

from __future__ import annotations

from dataclasses import dataclass

from foretoken.speculation.ledger import MAX_LOSS, STAKE_STEPS, Ledger

_NEWS = 0.2
_ADVANCE_STEPS = 3.0
"""Plain steps that a request may spend on a drafter that saves time, or of which nothing is known lately."""
_FORGIVEN = 2
"""Requests without a drafter that lost time, after which it gets another chance."""


@dataclass(slots=True)
class _Account:
    """What is known of one drafter, over all requests."""

    vain_ms: float = 0.0
    """What asking takes when nothing comes of it."""
    score: float = 0.0
    """1 if it saved time in all requests lately, -1 if it lost time in all; how much says more about the machine."""
    n_without: int = 0
    """Requests since one asked it."""

    @property
    def trusted(self) -> bool:
        return self.score > -0.5 or self.n_without >= _FORGIVEN


class Prices:
    """What asking each drafter takes when nothing comes of it, and what it saved requests lately."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        """Of those whose price was asked for."""

    def paid_in_vain(self, source: str, ms: float) -> None:
        """An ask took so long, and its answer was none, or wrong."""
        if account := self._accounts.get(source):
            account.vain_ms += _NEWS * (ms - account.vain_ms)

    def over(self, ledger: Ledger) -> None:
        """A request is over: learn what each drafter saved it."""
        for source, account in self._accounts.items():
            saved = ledger.by_drafter.get(source)
            if saved is None:
                account.n_without += 1
            else:
                account.score += ((1.0 if saved > 0 else -1.0) - account.score) / 2
                account.n_without = 0

    def affordable(self, source: str, ledger: Ledger, plain_ms: float) -> bool:
        """Whether it would not have lost the request more than it may if the answer were of no use."""
        account = self._accounts.setdefault(source, _Account())
        steps = _ADVANCE_STEPS if account.trusted else STAKE_STEPS
        allowed = MAX_LOSS * ledger.elapsed_ms + steps * plain_ms
        return ledger.by_drafter.get(source, 0.0) - account.vain_ms >= -allowed
