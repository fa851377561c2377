"""Hermes and Qwen: <tool_call>{"name": ..., "arguments": {...}}</tool_call>, one after the other."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.server.tools.calls import Calls, Ids
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, Control, json_call, spoken
from foretoken.server.tools.json_text import call_object
from foretoken.server.tools.marked import read_marked
from foretoken.server.tools.tape import Steps, Tape, expect, skip_space, take

OPEN, CLOSE = "<tool_call>", "</tool_call>"


class Hermes:
    """Reads and constrains calls in this format."""

    marks: tuple[str, ...] = (OPEN, CLOSE)
    ids = Ids()

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        return read_marked(tape, calls, (OPEN,), _call)

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        body = f'"\\n" call "\\n" {spoken(CLOSE, control)}'
        return Block(OPEN, body, [json_call(tool, "arguments") for tool in tools], "\n" if several else None)


def _call(tape: Tape, calls: Calls) -> Steps[None]:
    yield from expect(tape, OPEN)
    yield from skip_space(tape)
    yield from call_object(tape, calls)
    place = tape.at
    yield from skip_space(tape)
    if not (yield from take(tape, CLOSE)):
        tape.at = place
