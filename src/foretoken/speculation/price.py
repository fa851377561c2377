"""Whether a request can afford to ask a drafter whose guesses take long."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.speculation.ledger import MAX_LOSS, STAKE_STEPS, Ledger

_NEWS = 0.2
_ADVANCE_STEPS = 3.0
"""Plain steps that a request may spend on a drafter that saved time lately, or of which nothing is known yet."""


@dataclass(slots=True)
class Prices:
    """What asking each drafter takes when nothing comes of it, and what it saved requests lately."""

    _vain_ms: dict[str, float] = field(default_factory=dict)
    _usual_ms: dict[str, float] = field(default_factory=dict)

    def paid_in_vain(self, source: str, ms: float) -> None:
        """An ask took so long, and its answer was none, or wrong."""
        known = self._vain_ms.setdefault(source, ms)
        self._vain_ms[source] = known + _NEWS * (ms - known)

    def over(self, ledger: Ledger) -> None:
        """A request is over: learn what each drafter saved it."""
        for source, saved in ledger.by_drafter.items():
            known = self._usual_ms.setdefault(source, saved)
            self._usual_ms[source] = known + _NEWS * (saved - known)

    def affordable(self, source: str, ledger: Ledger, plain_ms: float) -> bool:
        """Whether the request would not have lost more than it may if the answer were of no use."""
        steps = _ADVANCE_STEPS if self._usual_ms.get(source, 1.0) > 0 else STAKE_STEPS
        allowed = MAX_LOSS * ledger.elapsed_ms + steps * plain_ms
        return ledger.balance_ms - self._vain_ms.get(source, 0.0) >= -allowed
