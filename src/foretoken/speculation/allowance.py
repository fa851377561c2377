"""What asking in vain may take of everybody's time where several slots share a step."""

from __future__ import annotations

from math import ceil

_SHARE = 0.005
"""The share of all time."""
_REINVESTED = 0.2
"""And of what drafts save."""
_MOST_STEPS = 1.5
"""Plain steps that may be put by for it: a group of new requests is asked about several times in a row."""
_NEWS = 0.2


class Allowance:
    """Grows with time and with every draft that was of use, and pays for asks of which nothing came.

    Each slot waits for its own asks to pay (`Pause`); but all of them wait for those of every one.
    """

    def __init__(self) -> None:
        self._spent_ms = 0.0
        """What was spent of the most that there can be."""
        self._ask_ms = 0.0
        """What an ask takes lately, for all slots together."""

    def earn(self, ms: float, saved_ms: float = 0.0) -> None:
        """So much time passed, in which drafts saved so much."""
        self._spent_ms = max(0.0, self._spent_ms - _SHARE * ms - _REINVESTED * max(0.0, saved_ms))

    def pay(self, ms: float) -> None:
        """Somebody was asked, and nothing came of it."""
        self._spent_ms += ms
        self._ask_ms += _NEWS * (ms - self._ask_ms)

    def steps_to_next(self, plain_ms: float) -> int:
        """Plain steps until there is enough for an ask."""
        missing_ms = self._spent_ms + self._ask_ms - _MOST_STEPS * plain_ms
        return max(0, ceil(missing_ms / (_SHARE * plain_ms)))
