"""Templates that know no tools: a system message lists them, calls are bare {"name": ..., "arguments": {...}}."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from foretoken.server.tools.bare import bare_block, read_bare
from foretoken.server.tools.calls import Calls, Ids
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, Control
from foretoken.server.tools.tape import Steps, Tape

_WORDS = """You may call these functions:
{tools}

To call one, answer with nothing but a JSON object on a line of its own; for several calls, one object per line:
{{"name": <function-name>, "arguments": <arguments-as-a-JSON-object>}}"""


class Generic:
    """Reads and constrains calls in this format."""

    marks: tuple[str, ...] = ()
    ids = Ids()

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        return read_bare(tape, calls)

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        return bare_block(tools, "arguments", "\n" if several else None)


def described(tools: Sequence[ToolDef]) -> str:
    """The tools in words, for a system message."""
    return _WORDS.format(tools="\n".join(json.dumps(tool.for_template()["function"]) for tool in tools))


def as_text(message: dict[str, Any]) -> dict[str, Any]:
    """A message of a history without calls and results: they are said in its content."""
    if message["role"] == "tool":
        name = message.get("name")
        return {"role": "user", "content": f"Result{f' of {name}' if name else ''}:\n{message['content']}"}
    calls = message.get("tool_calls")
    if not calls:
        return message
    lines = [json.dumps({"name": one["function"]["name"], "arguments": one["function"]["arguments"]}) for one in calls]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, [message.get("content"), *lines]))}
