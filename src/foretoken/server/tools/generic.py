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

Message = dict[str, Any]

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


def with_tools(messages: Sequence[Message], tools: Sequence[ToolDef], role: str) -> list[Message]:
    """The conversation with the tools told in its first message of this role."""
    listed = "\n".join(json.dumps(tool.for_template()["function"]) for tool in tools)
    words = _WORDS.format(tools=listed)
    found = list(messages)
    at = next((at for at, message in enumerate(found) if message["role"] == role), None)
    if at is None:
        return [{"role": role, "content": words}, *found]
    said = [found[at]["content"], words] if role == "system" else [words, found[at]["content"]]
    found[at] = {**found[at], "content": "\n\n".join(said)}
    return found


def in_words(messages: Sequence[Message]) -> list[Message]:
    """A history without calls and results: calls are said by the assistant, results by the user, in turn."""
    found: list[Message] = []
    after_result = False
    for message in messages:
        result = message["role"] == "tool"
        one = _result(message) if result else _said(message)
        if (result or after_result) and found and found[-1]["role"] == one["role"] == "user":
            found[-1] = {**found[-1], "content": f"{found[-1]['content']}\n\n{one['content']}"}
        else:
            found.append(one)
        after_result = result
    return found


def _result(message: Message) -> Message:
    name = message.get("name")
    return {"role": "user", "content": f"Result{f' of {name}' if name else ''}:\n{message['content']}"}


def _said(message: Message) -> Message:
    calls = message.get("tool_calls")
    if not calls:
        return message
    lines = [json.dumps({"name": one["function"]["name"], "arguments": one["function"]["arguments"]}) for one in calls]
    rest = {key: value for key, value in message.items() if key != "tool_calls"}
    return {**rest, "content": "\n".join(filter(None, [message["content"], *lines]))}
