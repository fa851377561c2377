"""Which way to call tools a template speaks: found out by asking it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from foretoken.chat import ChatTemplate
from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.tools.calls import CallParser, Calls, Ids
from foretoken.server.tools.definitions import ToolDef, ToolUse
from foretoken.server.tools.generic import Generic, as_text, described
from foretoken.server.tools.grammar import Block, Control, calls_between_text, calls_only
from foretoken.server.tools.hermes import Hermes
from foretoken.server.tools.llama3 import Llama3
from foretoken.server.tools.mistral import Mistral
from foretoken.server.tools.qwen_xml import QwenXml
from foretoken.server.tools.tape import Steps, Tape
from foretoken.types import Token

Message = dict[str, Any]


class ToolFormat(Protocol):
    """A family's way to write calls."""

    @property
    def marks(self) -> tuple[str, ...]:
        """Words that may be single tokens of the vocabulary, visible or not."""
        ...

    @property
    def ids(self) -> Ids: ...

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        """Tell text and calls as they come."""
        ...

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        """How the calls are written."""
        ...


@dataclass(frozen=True, slots=True)
class Dialect:
    """What a template can say about tools, and how its model calls them."""

    format: ToolFormat
    native: bool
    """Whether the template lists tools by itself; if not they are told in a system message."""
    history: Literal["objects", "texts", "none"]
    """Whether it writes earlier calls, and how it wants their arguments."""
    single: bool = False
    """Whether it refuses several calls in one message."""

    def told(self, messages: Sequence[Message], tools: Sequence[ToolDef]) -> tuple[list[Message], dict[str, Any]]:
        """Messages and variables for the template, so that the model learns of these tools and of earlier calls."""
        found = _one_call_each(messages) if self.single else list(messages)
        found = [self._history(message) for message in found]
        if not tools:
            return found, {}
        if self.native:
            return found, {"tools": [tool.for_template() for tool in tools]}
        words = described(tools)
        if found and found[0]["role"] == "system":
            return [{**found[0], "content": f"{found[0]['content']}\n\n{words}"}, *found[1:]], {}
        return [{"role": "system", "content": words}, *found], {}

    def _history(self, message: Message) -> Message:
        if message.get("tool_call_id"):
            message = {**message, "tool_call_id": self.format.ids.known(message["tool_call_id"])}
        if calls := message.get("tool_calls"):
            message = {**message, "tool_calls": [self._call(call) for call in calls]}
        return as_text(message) if self.history == "none" else message

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        if self.history == "texts":
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return {"id": self.format.ids.known(call["id"]), "type": "function", "function": function}

    def parser(self, use: ToolUse) -> CallParser:
        """Reads one answer."""
        calls = Calls([tool.name for tool in use.callable], self.format.ids)
        return CallParser(lambda tape, calls: self.format.read(tape, calls, use.callable), calls)

    def grammar(self, use: ToolUse, vocabulary: Vocabulary) -> str:
        """What an answer must look like that calls as it should."""
        control = self.control(vocabulary)
        block = self.format.block(use.callable, use.several, control)
        return calls_only(block, control) if use.required else calls_between_text(block, control)

    def control(self, vocabulary: Vocabulary) -> dict[str, Token]:
        """The marks that are control tokens: their text is to be seen while calls are read."""
        found = {mark: vocabulary.tokenize(mark, add_special=False) for mark in self.format.marks}
        return {
            mark: tokens[0] for mark, tokens in found.items() if len(tokens) == 1 and vocabulary.is_control(tokens[0])
        }


_TOOL = ToolDef("probe_tool", "Probes.", {"type": "object", "properties": {"probe_key": {"type": "string"}}})
_USER: Message = {"role": "user", "content": "Hi"}


def dialect_of(template: ChatTemplate) -> Dialect:
    """Ask a template what it does with tools, with calls and with results."""
    listed = _rendered(template, [_USER], tools=[_TOOL.for_template()])
    format = _format(template.source) if _TOOL.name in listed else None
    history: Literal["objects", "texts", "none"] = "none"
    if _knows_calls(template, {"probe_key": "probe_value"}):
        history = "objects"
    elif _knows_calls(template, '{"probe_key": "probe_value"}'):
        history = "texts"
    if format is None:
        return Dialect(Generic(), False, history)
    several = history == "none" or _knows_calls(template, {"probe_key": "probe_value"}, 2)
    return Dialect(format, True, history, single=not several)


def _format(source: str) -> ToolFormat | None:
    if "<function=" in source:
        return QwenXml()
    if "<tool_call>" in source and "arguments" in source and "<arg_key>" not in source:
        return Hermes()
    if "[TOOL_CALLS]" in source:
        return Mistral(listed="[ARGS]" not in source)
    if "<|python_tag|>" in source or ("<|start_header_id|>" in source and "parameters" in source):
        return Llama3()
    return None


def _knows_calls(template: ChatTemplate, arguments: Any, n: int = 1) -> bool:
    """Whether calls and results come out as they should."""
    ids = [f"call0000{number}" for number in range(n)]
    function = {"name": _TOOL.name, "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    results = [{"role": "tool", "name": _TOOL.name, "tool_call_id": one, "content": "probe_result"} for one in ids]
    messages: list[Message] = [_USER, {"role": "assistant", "content": "", "tool_calls": calls}, *results]
    text = _rendered(template, messages)
    known = '"probe_key": "probe_value"' in text or "<parameter=probe_key>" in text
    return known and text.count("probe_result") == n and text.count(_TOOL.name) >= n


def _rendered(template: ChatTemplate, messages: Sequence[Message], **variables: Any) -> str:
    try:
        return template.render(messages, **variables)
    except InvalidRequest:
        return ""


def _one_call_each(messages: Sequence[Message]) -> list[Message]:
    """A history in which every call is a message of its own, with its result behind it."""
    found: list[Message] = []
    results = {message["tool_call_id"]: message for message in messages if message.get("tool_call_id")}
    placed: set[str] = set()
    for message in messages:
        calls = message.get("tool_calls") or []
        if len(calls) < 2:
            if message.get("tool_call_id") not in placed:
                found.append(message)
            continue
        for number, call in enumerate(calls):
            found.append({**message, "content": "" if number else message["content"], "tool_calls": [call]})
            if call["id"] in results:
                found.append(results[call["id"]])
                placed.add(call["id"])
    return found
