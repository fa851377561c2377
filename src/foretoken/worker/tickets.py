"""Who waits and who is being answered, kept where a dying engine cannot take it along."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from foretoken.errors import QueueFull
from foretoken.types import Event, Request

MAX_ATTEMPTS = 3
"""How often a request that was waiting inside a dying engine is handed to the next one."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One request and where its events go."""

    request: Request
    deliver: Callable[[Event | Exception], None]
    number: int = field(default_factory=count(1).__next__)
    since: float = field(default_factory=time.monotonic)
    sent: float | None = None
    remaining: set[int] = field(init=False)
    """Choices that are not finished."""
    answered: bool = False
    cancelled: bool = False
    attempts: int = 0

    def __post_init__(self) -> None:
        self.remaining = set(range(self.request.n))

    @property
    def waited(self) -> float:
        """Seconds that the request was here before the engine got it."""
        return (self.sent or time.monotonic()) - self.since


class Line:
    """First come, first served: tickets wait here, and only as many as can soon be answered go inside."""

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.waiting: deque[Ticket] = deque()
        self.inside: dict[str, Ticket] = {}
        self.n_slots = 0

    @property
    def n_inside(self) -> int:
        """Choices the engine has been given and not finished."""
        return sum(len(ticket.remaining) for ticket in self.inside.values())

    @property
    def n_waiting(self) -> int:
        """Requests that are not in a slot yet."""
        return len(self.waiting) + max(0, len(self.inside) - self.n_slots)

    def add(self, ticket: Ticket) -> None:
        if len(self.waiting) >= self.max_waiting:
            raise QueueFull(f"{len(self.waiting)} requests are waiting already; try again later")
        self.waiting.append(ticket)

    def next(self) -> Ticket | None:
        """The next ticket to hand over, if there is a place for it.

        One more round than there are slots goes inside, so that a slot never waits for its next request.
        """
        if not self.waiting:
            return None
        if self.inside and self.n_inside + self.waiting[0].request.n > 2 * self.n_slots:
            return None
        ticket = self.waiting.popleft()
        ticket.sent = time.monotonic()
        self.inside[ticket.request.id] = ticket
        return ticket

    def finished(self, ticket: Ticket, choice: int) -> None:
        """One choice is over."""
        ticket.remaining.discard(choice)
        if not ticket.remaining:
            self.inside.pop(ticket.request.id, None)

    def leave(self, ticket: Ticket) -> bool:
        """Take a waiting ticket out; False when it is not waiting."""
        # Looked for before it is removed: a queue that lacks something spells it out, with its whole prompt.
        if ticket.sent is not None or ticket not in self.waiting:
            return False
        self.waiting.remove(ticket)
        return True

    def lose(self) -> list[Ticket]:
        """The engine is gone: who was waiting waits again, in front; returns who was being answered."""
        running, kept, slots_left = [], [], self.n_slots
        for ticket in self.inside.values():
            if ticket.cancelled:
                continue
            in_slot = slots_left > 0
            slots_left -= len(ticket.remaining)
            if in_slot or ticket.answered or ticket.attempts + 1 >= MAX_ATTEMPTS:
                running.append(ticket)
            else:
                ticket.attempts += 1
                ticket.sent = None
                kept.append(ticket)
        self.inside.clear()
        self.waiting.extendleft(reversed(kept))
        return running

    def empty(self) -> list[Ticket]:
        """Take every waiting ticket out."""
        gone = list(self.waiting)
        self.waiting.clear()
        return gone
