"""JSON that streams in: values, and objects that are calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from foretoken.server.reading import Delta
from foretoken.server.tools.calls import Calls
from foretoken.server.tools.tape import Malformed, Steps, Tape, expect, peek, skip_space, take

_ARGUMENTS = ("arguments", "parameters")


class _Nesting:
    """Follows brackets and strings until the first bracket is closed."""

    def __init__(self) -> None:
        self._depth = 0
        self._quoted = self._escaped = False
        self.closed = False

    def take(self, tape: Tape) -> str:
        """Step over what is there of the value; returns it as JSON: raw line breaks in strings are escaped."""
        out = []
        while tape.at < len(tape.text) and not self.closed:
            letter = tape.text[tape.at]
            tape.at += 1
            out.append(self._one(letter))
        return "".join(out)

    def _one(self, letter: str) -> str:
        if self._escaped:
            self._escaped = False
        elif self._quoted:
            self._quoted = letter != '"'
            self._escaped = letter == "\\"
            if letter < " ":
                return json.dumps(letter)[1:-1]
        elif letter == '"':
            self._quoted = True
        elif letter in "{[":
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            self.closed = self._depth == 0
        return letter


def value(tape: Tape, say: Callable[[str], Delta] | None = None) -> Steps[str]:
    """One JSON value, returned as text; with `say` its pieces are told as they come."""
    first = yield from peek(tape)
    text = ""
    if first in ("{", "["):
        nesting = _Nesting()
        while not nesting.closed:
            if not (yield from peek(tape)):
                raise Malformed
            piece = nesting.take(tape)
            text += piece
            if say is not None:
                yield say(piece)
    elif first == '"':
        text = yield from _string(tape)
    else:
        while (letter := (yield from peek(tape))) and letter not in ",]} \t\r\n":
            text += letter
            tape.at += 1
    parse(text)
    return text


def _string(tape: Tape) -> Steps[str]:
    start, escaped = tape.at, False
    tape.at += 1
    while letter := (yield from peek(tape)):
        tape.at += 1
        if letter == '"' and not escaped:
            return tape.text[start : tape.at]
        escaped = letter == "\\" and not escaped
    raise Malformed


def parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise Malformed from None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def call_object(tape: Tape, calls: Calls) -> Steps[None]:
    """An object that is a call: its name, and its arguments under one of their names, in any order."""
    name: str | None = None
    early: str | None = None
    yield from expect(tape, "{")
    while True:
        yield from skip_space(tape)
        if (yield from take(tape, "}")):
            break
        key = parse((yield from value(tape)))
        yield from skip_space(tape)
        yield from expect(tape, ":")
        yield from skip_space(tape)
        if key == "name":
            name = calls.offered(parse((yield from value(tape))))
        elif key in _ARGUMENTS and name is not None and not calls.open:
            yield from _arguments(tape, calls, name)
        elif key in _ARGUMENTS:
            early = yield from value(tape)
        else:
            yield from value(tape)
        yield from skip_space(tape)
        if not (yield from take(tape, ",")):
            # Small models forget the last bracket; a call that has its arguments is one all the same.
            if not (yield from take(tape, "}")) and not calls.open:
                raise Malformed
            break
    if not calls.open:
        if name is None:
            raise Malformed
        arguments = _as_object(early or "{}")
        yield calls.start(name)
        yield calls.say(arguments)


def _arguments(tape: Tape, calls: Calls, name: str) -> Steps[None]:
    if (yield from peek(tape)) == "{":
        yield calls.start(name)
        yield from value(tape, calls.say)
    else:
        arguments = _as_object((yield from value(tape)))
        yield calls.start(name)
        yield calls.say(arguments)


def _as_object(text: str) -> str:
    """Arguments that were written as a text, or as nothing, as the object they mean."""
    found = parse(text)
    if isinstance(found, str):
        text = found
        found = parse(text)
    if found is None:
        return "{}"
    if not isinstance(found, dict):
        raise Malformed
    return text
