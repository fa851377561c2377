"""Mistral: [TOOL_CALLS][{"name": ..., "arguments": {...}}, ...], and since 2025 [TOOL_CALLS]name[ARGS]{...}."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from foretoken.server.tools.calls import Calls, Ids, letters
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, Control, json_call, json_of, literal, spoken
from foretoken.server.tools.json_text import call_object, value
from foretoken.server.tools.marked import read_marked
from foretoken.server.tools.tape import Steps, Tape, expect, identifier, peek, skip_space, take

OPEN, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
_N_ID = 9


class NineLetters(Ids):
    """The templates refuse other names than nine letters and digits."""

    def new(self) -> str:
        return letters(_N_ID)

    def known(self, call_id: str) -> str:
        if len(call_id) == _N_ID and call_id.isascii() and call_id.isalnum():
            return call_id
        return hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:_N_ID]


class Mistral:
    """Reads both ways to write calls; `listed` says which one the model is held to."""

    marks: tuple[str, ...] = (OPEN, ID, ARGUMENTS)
    ids = NineLetters()

    def __init__(self, listed: bool) -> None:
        self._listed = listed

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        return read_marked(tape, calls, (OPEN,), _call)

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        if self._listed:
            body = '"[" call (", " call)* "]"' if several else '"[" call "]"'
            return Block(OPEN, body, [json_call(tool, "arguments") for tool in tools])
        arguments = spoken(ARGUMENTS, control)
        calls = [f"{literal(tool.name)} {arguments} {json_of(tool.parameters, strict=tool.strict)}" for tool in tools]
        return Block(OPEN, "call", calls, "" if several else None)


def _call(tape: Tape, calls: Calls) -> Steps[None]:
    yield from expect(tape, OPEN)
    yield from skip_space(tape)
    if (yield from take(tape, "[")):
        yield from _list(tape, calls)
        return
    if (yield from peek(tape)) == "{":
        yield from call_object(tape, calls)
        return
    name = calls.offered((yield from identifier(tape)))
    if (yield from take(tape, ID)):
        yield from identifier(tape)
    yield from take(tape, ARGUMENTS)
    yield from skip_space(tape)
    if (yield from peek(tape)) != "{":
        yield from expect(tape, "{")
    yield calls.start(name)
    yield from value(tape, calls.say)


def _list(tape: Tape, calls: Calls) -> Steps[None]:
    while True:
        yield from skip_space(tape)
        yield from call_object(tape, calls)
        place = tape.at
        yield from skip_space(tape)
        if not (yield from take(tape, ",")):
            break
        yield calls.end(tape)
    if not (yield from take(tape, "]")):
        tape.at = place
