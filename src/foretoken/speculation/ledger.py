"""What speculation saved and lost, in milliseconds, against plain steps of the same run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

MAX_LOSS = 0.01
"""The share of a request's time that speculation may lose."""
STAKE_STEPS = 0.35
"""Plain steps that a request may risk before it has earned anything."""


@dataclass(slots=True)
class Ledger:
    """The account of one request: positive is time saved."""

    balance_ms: float = 0.0
    won_ms: float = 0.0
    """By verified drafts alone: what asking costs must not keep a request from ever betting."""
    elapsed_ms: float = 0.0
    by_drafter: dict[str, float] = field(default_factory=dict)
    advances: dict[str, float] = field(default_factory=dict)
    """What the first ask of each took: those whose guesses take long read the text then."""
    forgiven: dict[str, float] = field(default_factory=dict)
    """What each had lost when it proved that it would have guessed what was said."""

    def enter(self, source: str, won_ms: float, asked_ms: float = 0.0) -> None:
        """Book what a drafter's draft won, or lost, in one step, and what asking it took."""
        saved_ms = won_ms - asked_ms
        self.won_ms += won_ms
        self.balance_ms += saved_ms
        self.advances.setdefault(source, asked_ms)
        self.by_drafter[source] = self.by_drafter.get(source, 0.0) + saved_ms

    def forgive(self, source: str) -> None:
        """What it lost so far is no reason not to ask it."""
        self.forgiven[source] = max(0.0, -self.by_drafter.get(source, 0.0))

    def stake_ms(self, plain_ms: float) -> float:
        """What may be risked now: half of what was won, a share of the time spent, a little to begin with."""
        earned = self.won_ms / 2 if self.won_ms > 0 else self.won_ms
        return earned + MAX_LOSS * self.elapsed_ms + STAKE_STEPS * plain_ms


@dataclass(slots=True)
class Balance:
    """What one drafter saved and what it lost since the start, over all requests."""

    saved_ms: float = 0.0
    lost_ms: float = 0.0

    def enter(self, saved_ms: float) -> None:
        self.saved_ms += max(0.0, saved_ms)
        self.lost_ms += max(0.0, -saved_ms)


@dataclass(slots=True)
class BackOff:
    """How long a drafter that loses is left alone: twice as long each time, until it wins again."""

    n_tries: int | None = None
    balance_ms: float = 0.0
    rest: int = 0
    _next_rest: int = 8
    _lost_in_a_row: int = 0

    MAX_REST: ClassVar[int] = 256

    def enter(self, saved_ms: float, plain_ms: float, judged: bool = True) -> None:
        """Book what was saved; an offer that was not judged cost only its drafting."""
        self.balance_ms = self.balance_ms * 0.9 + saved_ms
        if judged:
            self._lost_in_a_row = self._lost_in_a_row + 1 if saved_ms < 0 else 0
        if self.balance_ms < -3 * plain_ms or self._lost_in_a_row == self.n_tries:
            self._lost_in_a_row = 0
            self.rest, self._next_rest = self._next_rest, min(self.MAX_REST, 2 * self._next_rest)
            self.balance_ms = 0.0
        elif saved_ms > 0:
            self._next_rest = 8

    def resting(self) -> bool:
        """Whether this drafter sits the step out; counts the steps."""
        if self.rest > 0:
            self.rest -= 1
            return True
        return False
