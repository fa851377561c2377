"""What drafts cost after their own step: on a GPU a step unlike the one before it must be captured anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foretoken.types import SeqId

_NEWS = 0.2
_NOTABLE = 0.3
"""A share of a plain step that is more than noise."""
_SURPRISE = 8.0
"""A plain step that took more times longer than this was held up by something else."""


class Aftermath:
    """Compares the plain step behind a draft with the plain steps behind plain ones."""

    def __init__(self) -> None:
        self.latest_ms = 0.0
        self._share = 0.0
        """How much longer than a plain step the one behind a draft takes, relative."""
        self._before: Mapping[SeqId, str] = {}
        self.lasts = True
        """Whether the step before was no plain one, so that a plain one now would take longer than it usually does."""

    @property
    def distorts(self) -> bool:
        """Whether a plain step now would say nothing of what plain steps take."""
        return self.lasts and self._share > _NOTABLE

    def expected_ms(self, plain_ms: float) -> float:
        """What a draft must pay beside its own step, unless that is due anyway."""
        return 0.0 if self.lasts else self._share * plain_ms

    def read(self) -> None:
        """A step is over in which prompts were read."""
        self._before, self.lasts = {}, True

    def over(self, drafted: Mapping[SeqId, str], ms: float, expected: Callable[[], float]) -> Mapping[SeqId, str]:
        """A step is over that verified drafts of these sources; returns whose drafts before made it longer."""
        before, self._before = self._before, drafted
        self.lasts = bool(drafted)
        if drafted or not before:
            return {}
        expected_ms = expected()
        share = min(ms / expected_ms, _SURPRISE) - 1.0
        self._share = max(0.0, self._share + _NEWS * (share - self._share))
        self.latest_ms = max(0.0, share) * expected_ms
        return before

    def forget(self, seq: SeqId) -> None:
        """A request is over: the next one in its slot is not charged for its last draft."""
        self._before = {other: source for other, source in self._before.items() if other != seq}
