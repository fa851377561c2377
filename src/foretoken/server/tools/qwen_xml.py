"""Qwen3-Coder: <tool_call><function=name><parameter=key>value</parameter></function></tool_call>."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from foretoken.server.tools.calls import Calls, Ids
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, Control, json_of, literal, spoken
from foretoken.server.tools.json_text import parse
from foretoken.server.tools.marked import read_marked
from foretoken.server.tools.tape import (
    Malformed,
    Steps,
    Tape,
    expect,
    identifier,
    n_undecided,
    read_until,
    skip_space,
    take,
)

OPEN, CLOSE = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"

_BARE_TEXT = r"bare_text[lazy]: /(.|\n)*\n<\/parameter>\n/"


class QwenXml:
    """Reads and constrains calls in this format; values of text are bare, all others JSON."""

    marks: tuple[str, ...] = (OPEN, CLOSE)
    ids = Ids()

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        schemas = {tool.name: _properties(tool) for tool in tools}

        def call(tape: Tape, calls: Calls) -> Steps[None]:
            return _call(tape, calls, schemas)

        return read_marked(tape, calls, (OPEN, FUNCTION), call)

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        body = f'"\\n" call "\\n" {spoken(CLOSE, control)}'
        return Block(OPEN, body, [_rule(tool) for tool in tools], "\n" if several else None, _BARE_TEXT)


def _properties(tool: ToolDef) -> Mapping[str, Any]:
    found = tool.parameters.get("properties")
    return found if isinstance(found, dict) else {}


def _call(tape: Tape, calls: Calls, schemas: Mapping[str, Mapping[str, Any]]) -> Steps[None]:
    yield from take(tape, OPEN)
    yield from skip_space(tape)
    yield from expect(tape, FUNCTION)
    name = calls.offered((yield from identifier(tape)))
    yield from expect(tape, ">")
    yield calls.start(name)
    yield calls.say("{")
    keys: set[str] = set()
    while True:
        yield from skip_space(tape)
        if (yield from take(tape, FUNCTION_END)):
            break
        yield from expect(tape, PARAMETER)
        key = yield from read_until(tape, ">")
        if key in keys:
            raise Malformed
        yield calls.say(f"{', ' if keys else ''}{json.dumps(key, ensure_ascii=False)}: ")
        keys.add(key)
        if _is_text(schemas[name].get(key)):
            yield from _text(tape, calls)
        else:
            yield calls.say(_converted((yield from read_until(tape, PARAMETER_END))))
    yield calls.say("}")
    place = tape.at
    yield from skip_space(tape)
    if not (yield from take(tape, CLOSE)):
        tape.at = place


def _text(tape: Tape, calls: Calls) -> Steps[None]:
    """A value that is bare text, told as it comes; one line break at each end belongs to the tags."""
    ends = (f"\n{PARAMETER_END}", PARAMETER_END)
    yield from take(tape, "\n")
    yield calls.say('"')
    while True:
        places = [place for end in ends if (place := tape.text.find(end, tape.at)) >= 0]
        if not places and tape.closed:
            raise Malformed
        stop = min(places) if places else len(tape.text) - n_undecided(tape.rest, ends)
        if stop > tape.at:
            piece, tape.at = tape.text[tape.at : stop], stop
            yield calls.say(json.dumps(piece, ensure_ascii=False)[1:-1])
        if places:
            break
        yield None
    yield from take(tape, "\n")
    yield from expect(tape, PARAMETER_END)
    yield calls.say('"')


def _converted(text: str) -> str:
    """A value that is no text: JSON as it stands, or else a text after all."""
    text = text.strip()
    try:
        return json.dumps(parse(text), ensure_ascii=False)
    except Malformed:
        return json.dumps(text, ensure_ascii=False)


def _is_text(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    kind = schema.get("type")
    values = schema.get("enum")
    return kind == "string" or (kind is None and isinstance(values, list) and all(isinstance(v, str) for v in values))


def _rule(tool: ToolDef) -> str:
    required = tool.parameters.get("required")
    needed = required if isinstance(required, list) else []
    parts = [
        _parameter(key, schema, tool.strict) + ("" if key in needed else "?")
        for key, schema in _properties(tool).items()
    ]
    return " ".join([literal(f"{FUNCTION}{tool.name}>\n"), *parts, literal(FUNCTION_END)])


def _parameter(key: str, schema: Any, strict: bool) -> str:
    end = f"\n{PARAMETER_END}\n"
    head = literal(f"{PARAMETER}{key}>\n")
    if not _is_text(schema):
        return f"({head} {json_of(schema, strict=strict)} {literal(end)})"
    if values := schema.get("enum"):
        return f"({head} ({' | '.join(literal(value) for value in values)}) {literal(end)})"
    return f"({head} bare_text)"
