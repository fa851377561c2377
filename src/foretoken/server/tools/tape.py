"""Text that is still being written, and straight-line readers of it that wait for more."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeVar

from foretoken.server.reading import Delta, Text

T = TypeVar("T")

Steps = Generator[Delta | None, None, T]
"""A reader: yields what it has found, None when it needs more text, and returns its result."""


class Malformed(Exception):
    """The text is not what it began to look like."""


class Tape:
    """What was said and not yet told, and a place in it."""

    def __init__(self) -> None:
        self.text = ""
        self.at = 0
        self.closed = False

    @property
    def rest(self) -> str:
        return self.text[self.at :]

    def forget(self) -> None:
        """Drop what lies behind."""
        self.text, self.at = self.rest, 0


def peek(tape: Tape) -> Steps[str]:
    """The next letter; nothing at the end."""
    while tape.at == len(tape.text):
        if tape.closed:
            return ""
        yield None
    return tape.text[tape.at]


def take(tape: Tape, literal: str) -> Steps[bool]:
    """Step over these words if they come next."""
    while True:
        ahead = tape.text[tape.at : tape.at + len(literal)]
        if ahead == literal:
            tape.at += len(literal)
            return True
        if tape.closed or not literal.startswith(ahead):
            return False
        yield None


def expect(tape: Tape, literal: str) -> Steps[None]:
    if not (yield from take(tape, literal)):
        raise Malformed


def skip_space(tape: Tape) -> Steps[None]:
    while (letter := (yield from peek(tape))) and letter in " \t\r\n":
        tape.at += 1


def identifier(tape: Tape) -> Steps[str]:
    """A tool's name: letters, digits and what else may join them."""
    start = tape.at
    while (letter := (yield from peek(tape))) and (letter.isalnum() or letter in "_.:/-"):
        tape.at += 1
    return tape.text[start : tape.at]


def read_until(tape: Tape, mark: str) -> Steps[str]:
    """The text before a mark, which is stepped over."""
    searched = tape.at
    while (found := tape.text.find(mark, searched)) < 0:
        if tape.closed:
            raise Malformed
        searched = max(tape.at, len(tape.text) - len(mark) + 1)
        yield None
    text, tape.at = tape.text[tape.at : found], found + len(mark)
    return text


def tell_until(tape: Tape, marks: Sequence[str], *, after_call: bool = False) -> Steps[int | None]:
    """Tell the text before the next mark and go there; returns where the space before it begins, None at the end.

    Mere space that ends an answer after a call is nothing.
    """
    while True:
        found = [place for mark in marks if (place := tape.text.find(mark, tape.at)) >= 0]
        end = min(found) if found else len(tape.text) - n_undecided(tape.rest, marks)
        start = tape.at + len(tape.text[tape.at : end].rstrip())
        if not found and tape.closed and (tape.rest.strip() or not after_call):
            start = len(tape.text)
        if start > tape.at:
            yield Text(tape.text[tape.at : start])
            tape.at = start
        if found:
            tape.at = end
            return start
        if tape.closed:
            return None
        tape.forget()
        yield None


def n_undecided(text: str, marks: Sequence[str]) -> int:
    """The length of the longest tail that a mark could begin with."""
    longest = max((len(mark) - 1 for mark in marks), default=0)
    tails = range(min(longest, len(text)), 0, -1)
    return next((n for n in tails if any(mark.startswith(text[-n:]) for mark in marks)), 0)
