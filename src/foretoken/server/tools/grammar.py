"""Grammars that hold a model to a family's way of calling, in llguidance's dialect of lark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from foretoken.grammar.compiler import styled
from foretoken.server.tools.definitions import ToolDef
from foretoken.types import Token

Control = Mapping[str, Token]
"""Marks that are control tokens of the vocabulary: a grammar names them by their number."""


@dataclass(frozen=True, slots=True)
class Block:
    """How calls are written: after a mark comes `body`, in which `call` stands for any one of `calls`."""

    mark: str
    body: str
    calls: Sequence[str]
    again: str | None = None
    """What comes between two blocks; None is a block that does not come twice."""
    rules: str = ""
    """Further rules that the calls refer to."""
    objects: Sequence[str] = ()
    """The calls once more as whole JSON objects, where they are nothing else."""


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def spoken(mark: str, control: Control) -> str:
    """A mark in a grammar: by its number if it is a control token, by its letters if it is text."""
    return f"<[{control[mark]}]>" if mark in control else literal(mark)


def json_of(schema: Any, *, strict: bool) -> str:
    """JSON that keeps to a schema; where that need not be strict, what the grammar cannot express is left out."""
    if isinstance(schema, dict) and not strict:
        schema = {**schema, "x-guidance": {"lenient": True}}
    return f"%json {json.dumps(styled(schema))}"


def json_call(tool: ToolDef, key: str) -> str:
    """A call as an object: its name, and its arguments under this key."""
    head = json.dumps({"name": tool.name, key: 0}).removesuffix("0}")
    return f'{literal(head)} {json_of(tool.parameters, strict=tool.strict)} "}}"'


def json_object(tool: ToolDef, key: str) -> str:
    """The same call as one JSON value."""
    shared = {name: tool.parameters[name] for name in ("$defs", "definitions") if name in tool.parameters}
    properties = {"name": {"const": tool.name}, key: tool.parameters}
    schema = {"type": "object", "properties": properties, "required": ["name", key], "additionalProperties": False}
    return json_of({**schema, **shared}, strict=tool.strict)


def calls_only(block: Block, control: Control) -> str:
    """An answer that is calls and nothing else."""
    mark = spoken(block.mark, control)
    again = "" if block.again is None else f" ({literal(block.again) if block.again else ''} block)*"
    return _joined(f"start: block{again}", f"block: {mark} {block.body}", block)


def calls_or_json(block: Block, control: Control, schema: Any) -> str:
    """An answer that is either calls or JSON of a schema; where calls are bare objects too, it is one of these."""
    answer = json_of(schema, strict=True)
    if block.objects:
        return f"%llguidance {{}}\nstart: {' | '.join([answer, *block.objects])}\n"
    return calls_only(block, control).replace("start: ", f"start: {answer} | ", 1)


def calls_between_text(block: Block, control: Control) -> str:
    """An answer that may call: free text until a mark, after which a call must come."""
    mark = spoken(block.mark, control)
    start = "start: TEXT | block" if block.again is None else "start: block* TEXT"
    lead = f"lead: TEXT {mark}" if block.mark in control else f"lead[lazy]: TEXT {mark}"
    return _joined(start, f"block: lead {block.body}\n{lead}\nTEXT: /(.|\\n)*/", block)


def _joined(start: str, block_rule: str, block: Block) -> str:
    calls = "\n".join(f"call_{number}: {call}" for number, call in enumerate(block.calls))
    names = " | ".join(f"call_{number}" for number in range(len(block.calls)))
    return f"%llguidance {{}}\n{start}\n{block_rule}\ncall: {names}\n{calls}\n{block.rules}\n"
