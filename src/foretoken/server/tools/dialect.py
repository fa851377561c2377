"""Which way to call tools a template speaks: found out by asking it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from foretoken.chat import ChatTemplate
from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.reading import Reader, read_whole
from foretoken.server.tools.calls import CallParser, Calls, Ids
from foretoken.server.tools.definitions import ToolDef, ToolUse
from foretoken.server.tools.generic import Generic, in_words, with_tools
from foretoken.server.tools.grammar import Block, Control, calls_between_text, calls_only, calls_or_json
from foretoken.server.tools.hermes import Hermes
from foretoken.server.tools.llama3 import Llama3
from foretoken.server.tools.mistral import Mistral
from foretoken.server.tools.qwen_xml import QwenXml
from foretoken.server.tools.tape import Steps, Tape
from foretoken.types import Constraint, Token

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
    system: bool = True
    """Whether it takes a system message."""

    def told(self, messages: Sequence[Message], tools: Sequence[ToolDef]) -> tuple[list[Message], dict[str, Any]]:
        """Messages and variables for the template, so that the model learns of these tools and of earlier calls."""
        found = _one_call_each(messages) if self.single else list(messages)
        found = [self._history(message) for message in found]
        if self.history == "none":
            found = in_words(found)
        if not tools:
            return found, {}
        if self.native:
            return found, {"tools": [tool.for_template() for tool in tools]}
        return with_tools(found, tools, "system" if self.system else "user"), {}

    def _history(self, message: Message) -> Message:
        if message.get("tool_call_id"):
            message = {**message, "tool_call_id": self.format.ids.known(message["tool_call_id"])}
        if calls := message.get("tool_calls"):
            message = {**message, "tool_calls": [self._call(call) for call in calls]}
        return message

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(call["function"])
        if self.history == "texts":
            function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
        return {"id": self.format.ids.known(call["id"]), "type": "function", "function": function}

    def parser(self, use: ToolUse) -> CallParser:
        """Reads one answer."""
        calls = Calls([tool.name for tool in use.callable], self.format.ids)
        return CallParser(lambda tape, calls: self.format.read(tape, calls, use.callable), calls)

    def grammar(self, use: ToolUse, vocabulary: Vocabulary, otherwise: Constraint | None = None) -> str:
        """What an answer must look like that calls as it should, and `otherwise` is as it should be."""
        control = self.control(vocabulary)
        block = self.format.block(use.callable, use.several, control)
        if use.required:
            return calls_only(block, control)
        if otherwise is None:
            return calls_between_text(block, control)
        if otherwise.kind != "json_schema":
            raise InvalidRequest("tools go together with a JSON schema, not with other grammars; leave one out")
        return calls_or_json(block, control, json.loads(otherwise.source))

    def control(self, vocabulary: Vocabulary) -> dict[str, Token]:
        """The marks that are control tokens: their text is to be seen while calls are read."""
        return {mark: token for mark, token in self.tokens(vocabulary).items() if vocabulary.is_control(token)}

    def tokens(self, vocabulary: Vocabulary) -> dict[str, Token]:
        """The marks that are single tokens."""
        found = {mark: vocabulary.tokenize(mark, add_special=False) for mark in self.format.marks}
        return {mark: tokens[0] for mark, tokens in found.items() if len(tokens) == 1}


_TOOL = ToolDef("probe_tool", "Probes.", {"type": "object", "properties": {"probe_key": {"type": "string"}}})
_ARGUMENTS = {"probe_key": "probe_value"}
_USER: Message = {"role": "user", "content": "Hi"}


def dialect_of(template: ChatTemplate) -> Dialect:
    """Ask a template to list a tool and to write a call: the family that can read the call is the model's."""
    takes_system = "Probing." in _rendered(template, [{"role": "system", "content": "Probing."}, _USER])
    told_in_words = Dialect(Generic(), False, "none", system=takes_system)
    if _TOOL.name not in _rendered(template, [_USER], tools=[_TOOL.for_template()]):
        return told_in_words
    ways: tuple[tuple[Literal["objects", "texts"], Any], ...] = (
        ("objects", _ARGUMENTS),
        ("texts", json.dumps(_ARGUMENTS)),
    )
    for history, arguments in ways:
        text = _written(template, arguments, 1)
        if (format := _family(text)) is not None:
            two = _written(template, arguments, 2)
            return Dialect(format, True, history, single=_n_read(format, two) < 2)
    return told_in_words


def _family(text: str) -> ToolFormat | None:
    families: list[ToolFormat] = [QwenXml(), Hermes()] if "<tool_call>" in text else []
    families.append(Mistral(listed="[ARGS]" not in text))
    if '"parameters"' in text:
        families.append(Llama3())
    return next((format for format in families if _n_read(format, text) == 1), None)


def _n_read(format: ToolFormat, text: str) -> int:
    """How many of the calls that were written can be read."""
    use = ToolUse((_TOOL,), (_TOOL,))
    said = read_whole(Reader(None, Dialect(format, True, "objects").parser(use)), text)
    return sum(call.arguments == json.dumps(_ARGUMENTS) for call in said.calls)


def _written(template: ChatTemplate, arguments: Any, n: int) -> str:
    """A history with calls and their results, as the template writes it."""
    ids = [f"call0000{number}" for number in range(n)]
    function = {"name": _TOOL.name, "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    results = [{"role": "tool", "name": _TOOL.name, "tool_call_id": one, "content": "Result"} for one in ids]
    return _rendered(template, [_USER, {"role": "assistant", "content": "", "tool_calls": calls}, *results])


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
