"""Items to messages: thoughts, text and calls that belong to one answer become one message again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foretoken.errors import InvalidRequest

_TEXT_PARTS = frozenset({"input_text", "output_text", "text", "reasoning_text", "summary_text"})
_ROLES = frozenset({"user", "assistant", "system", "developer"})


def messages_of(instructions: str | None, items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The conversation of these items; instructions and what developers say first is one system message."""
    builder = _Builder()
    for item in items:
        builder.take(item)
    messages = builder.messages
    head = [instructions] if instructions else []
    while messages and messages[0]["role"] == "system":
        head.append(messages.pop(0)["content"])
    if head:
        messages.insert(0, {"role": "system", "content": "\n\n".join(head)})
    return messages


class _Builder:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._answer: dict[str, Any] | None = None
        """The answer that items are being added to."""

    def take(self, item: dict[str, Any]) -> None:
        match item.get("type", "message"):
            case "message":
                self._message(item)
            case "reasoning":
                # What is not shown in full is summarised, or hidden: then there is nothing to tell.
                text = _text(item.get("content") or item.get("summary") or [], "reasoning")
                self._begin(text_begins=True)["reasoning_content"] = text
            case "function_call":
                self._call(item)
            case "function_call_output":
                self._add({"role": "tool", "tool_call_id": _string(item, "call_id"), "content": _output(item)})
            case "item_reference":
                raise InvalidRequest("input: items are not referred to; send them, or use previous_response_id")
            case other:
                raise InvalidRequest(f"input: an item of type {other!r} cannot be read here")

    def _message(self, item: dict[str, Any]) -> None:
        role = item.get("role")
        if role not in _ROLES:
            raise InvalidRequest(f"input: the role of a message is one of {', '.join(sorted(_ROLES))}")
        content = _text(item.get("content"), "a message")
        if role == "assistant":
            self._begin(text_begins=True)["content"] = content
        else:
            self._add({"role": "system" if role == "developer" else role, "content": content})

    def _call(self, item: dict[str, Any]) -> None:
        function = {"name": _string(item, "name"), "arguments": _string(item, "arguments")}
        call = {"id": _string(item, "call_id"), "type": "function", "function": function}
        self._begin(text_begins=False).setdefault("tool_calls", []).append(call)

    def _begin(self, text_begins: bool) -> dict[str, Any]:
        """The answer an item belongs to: text after text, or after calls, is another answer."""
        answer = self._answer
        if answer is None or (text_begins and (answer["content"] or "tool_calls" in answer)):
            answer = {"role": "assistant", "content": ""}
            self._add(answer)
            self._answer = answer
        return answer

    def _add(self, message: dict[str, Any]) -> None:
        self._answer = None
        self.messages.append(message)


def _output(item: dict[str, Any]) -> str:
    return _text(item.get("output"), "the output of a function")


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"input: the content of {where} is a text or a list of parts")
    return "".join(_part(part, where) for part in content)


def _part(part: Any, where: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in _TEXT_PARTS and kind != "refusal":
        raise InvalidRequest(f"input: a part of type {kind!r} in {where} cannot be read; this server reads text")
    text = part.get("refusal" if kind == "refusal" else "text")
    if not isinstance(text, str):
        raise InvalidRequest(f"input: a part of {where} has no text")
    return text


def _string(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"input: a {item.get('type')} item needs its {name}, a text")
    return value
