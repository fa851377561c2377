"""What a chat template can do, found out by asking it: llama.cpp's names."""

from __future__ import annotations

from typing import Any

from foretoken.chat import ChatTemplate
from foretoken.errors import InvalidRequest

_USER = {"role": "user", "content": "Q9x"}
_TOOL = {"type": "function", "function": {"name": "T8y", "description": "", "parameters": {"type": "object"}}}


def template_caps(template: ChatTemplate) -> dict[str, bool]:
    """Whether what is put into a conversation comes out in its prompt."""

    def call(arguments: Any, n: int = 1) -> dict[str, Any]:
        one = {"id": "c", "type": "function", "function": {"name": "T8y", "arguments": arguments}}
        return {"role": "assistant", "content": "", "tool_calls": [one] * n}

    result = {"role": "tool", "tool_call_id": "c", "content": "ok"}
    thought = {"role": "assistant", "content": "A", "reasoning_content": "R7z"}
    return {
        "supports_object_arguments": _shows(template, ["V6w"], _USER, call({"k": "V6w"}), result),
        "supports_parallel_tool_calls": _shows(template, ["V6w"], _USER, call({"k": "V6w"}, 2), result, times=2),
        "supports_preserve_reasoning": _shows(template, ["R7z"], _USER, thought, _USER),
        "supports_reasoning_effort": "reasoning_effort" in template.source,
        "supports_string_content": _shows(template, ["Q9x"], _USER),
        "supports_system_role": _shows(template, ["S5v"], {"role": "system", "content": "S5v"}, _USER),
        "supports_tool_calls": _shows(template, ["T8y"], _USER, call({"k": "V6w"}), result)
        or _shows(template, ["T8y"], _USER, call('{"k": "V6w"}'), result),
        "supports_tools": _shows(template, ["T8y"], _USER, tools=[_TOOL]),
        "supports_typed_content": _shows(
            template, ["Q9x"], {"role": "user", "content": [{"type": "text", "text": "Q9x"}]}, hides="'type'"
        ),
    }


def _shows(
    template: ChatTemplate, words: list[str], *messages: dict[str, Any], times: int = 1, hides: str = "\0", **more: Any
) -> bool:
    try:
        text = template.render(messages, **more)
    except InvalidRequest:
        return False
    return all(text.count(word) >= times for word in words) and hides not in text
