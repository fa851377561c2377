"""Calls on their way from text to deltas, and the parser that every family's reader runs in."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Collection
from typing import Any

from foretoken.server.reading import CallArguments, CallBroken, CallEnded, CallStarted, Delta
from foretoken.server.tools.tape import Malformed, Steps, Tape

_LETTERS = string.ascii_letters + string.digits


class Ids:
    """How calls are named, so that results can be told apart."""

    def new(self) -> str:
        return "call_" + letters(24)

    def known(self, call_id: str) -> str:
        """A name from a client's history as the template wants it."""
        return call_id


def letters(n: int) -> str:
    return "".join(secrets.choice(_LETTERS) for _ in range(n))


class Calls:
    """The calls of one answer: who may be called, and what was told of them."""

    def __init__(self, names: Collection[str], ids: Ids) -> None:
        self._names = names
        self._ids = ids
        self.n_started = self.n_ended = 0
        self.open = False
        """Whether a call has begun and not ended."""
        self.since = 0
        """Where the text of the current call begins."""

    def offered(self, name: Any) -> str:
        """A name that may be called; others are no calls."""
        if not isinstance(name, str) or name not in self._names:
            raise Malformed
        return name

    def start(self, name: str) -> CallStarted:
        self.open = True
        self.n_started += 1
        return CallStarted(self.n_started - 1, self._ids.new(), name)

    def say(self, text: str) -> CallArguments:
        return CallArguments(self.n_started - 1, text)

    def end(self, tape: Tape) -> CallEnded:
        self.n_ended += 1
        return CallEnded(self.n_started - 1, self._source(tape))

    def give_up(self, tape: Tape) -> CallBroken:
        return CallBroken(self.n_started - 1, self._source(tape))

    def _source(self, tape: Tape) -> str:
        source, self.since, self.open = tape.text[self.since : tape.at], tape.at, False
        return source


def attempt(tape: Tape, calls: Calls, start: int, call: Steps[None]) -> Steps[bool]:
    """Read what seems to be a call, and tell how it ended; False is no call, with the tape where it was."""
    place, calls.since = tape.at, start
    try:
        yield from call
    except Malformed:
        if calls.open:
            yield calls.give_up(tape)
            return True
        n_told = calls.since - start
        tape.at = calls.since if n_told else place
        return n_told > 0
    yield calls.end(tape)
    return True


Read = Callable[[Tape, Calls], Steps[None]]


class CallParser:
    """Runs a family's reader over an answer as it comes in."""

    def __init__(self, read: Read, calls: Calls) -> None:
        self._tape = Tape()
        self._steps = read(self._tape, calls)

    def push(self, text: str) -> list[Delta]:
        """What this piece of the answer adds; what may still become a call is held back."""
        self._tape.text += text
        return self._run()

    def finish(self) -> list[Delta]:
        """What was held back, at the end."""
        self._tape.closed = True
        return self._run()

    def _run(self) -> list[Delta]:
        found: list[Delta] = []
        for delta in self._steps:
            if delta is None:
                break
            found.append(delta)
        return found
