"""Families whose calls are bare JSON objects: at the beginning of the answer, or wherever one names a tool."""

from __future__ import annotations

import json
from collections.abc import Sequence

from foretoken.server.tools.calls import Calls, attempt
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, json_call, json_object
from foretoken.server.tools.json_text import call_object
from foretoken.server.tools.marked import read_marked
from foretoken.server.tools.tape import Steps, Tape, peek, skip_space, take

NAMED = '{"name"'
_BETWEEN = ",;"


def read_bare(tape: Tape, calls: Calls, marks: Sequence[str] = ()) -> Steps[None]:
    """Tell text and calls in turn; `marks` may come before an object, as may a bracket before several."""
    yield from skip_space(tape)
    if (yield from peek(tape)) not in ("{", "[") or not (yield from attempt(tape, calls, 0, _objects(tape, calls))):
        tape.at = 0

    def marked(tape: Tape, calls: Calls) -> Steps[None]:
        for mark in marks:
            yield from take(tape, mark)
        yield from skip_space(tape)
        yield from _objects(tape, calls)

    yield from read_marked(tape, calls, (*marks, NAMED), marked)


def _objects(tape: Tape, calls: Calls) -> Steps[None]:
    """One object, or several with something between them; only the last one is left open."""
    several = yield from take(tape, "[")
    while True:
        yield from skip_space(tape)
        yield from call_object(tape, calls)
        place = tape.at
        yield from skip_space(tape)
        if several and (yield from take(tape, "]")):
            return
        if (letter := (yield from peek(tape))) and letter in _BETWEEN:
            tape.at += 1
            yield from skip_space(tape)
        if (yield from peek(tape)) != "{":
            tape.at = place
            return
        yield calls.end(tape)


def bare_block(tools: Sequence[ToolDef], key: str, again: str | None) -> Block:
    """The grammar of bare objects; until `{"name": ` an answer is free."""
    mark = '{"name": '
    quoted = json.dumps(mark)[:-1]
    calls = ['"' + json_call(tool, key).removeprefix(quoted) for tool in tools]
    return Block(mark, "call", calls, again, objects=[json_object(tool, key) for tool in tools])
