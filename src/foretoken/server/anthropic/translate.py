"""From Anthropic's blocks to the conversation every dialect shares: OpenAI's messages and tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from foretoken.errors import InvalidRequest
from foretoken.server.anthropic.bodies import Block, CountBody, Message, Tool
from foretoken.server.chat import ChatBody
from foretoken.server.fields import GenerationFields

_CHOICES = {"auto": "auto", "any": "required", "none": "none"}
_SHARED = frozenset(GenerationFields.model_fields) - {"stop"}


def chat_body(body: CountBody) -> ChatBody:
    """The same conversation as the chat core knows it; what both have in common is taken as it is."""
    found: dict[str, Any] = {name: getattr(body, name) for name in _SHARED if getattr(body, name) is not None}
    found["messages"] = [*_system(body.system), *(said for message in body.messages for said in _said(message))]
    found["stop"] = [*body.stops, *(body.stop_sequences or [])]
    found["max_tokens"] = getattr(body, "max_tokens", None)
    found["chat_template_kwargs"] = _template_kwargs(body)
    if body.tools:
        found["tools"] = [_tool(tool) for tool in body.tools]
        found |= _choice(body)
    config = body.output_config
    if form := (config and config.format) or body.output_format:
        found["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": form.form}}
    if config and config.effort:
        found["reasoning_effort"] = config.effort
    return ChatBody.model_validate(found)


def _template_kwargs(body: CountBody) -> dict[str, Any]:
    given = body.chat_template_kwargs or {}
    if body.thinking is None or body.thinking.type == "adaptive":
        return given
    return {"enable_thinking": body.thinking.type == "enabled", **given}


def _system(system: str | list[Block] | None) -> Iterator[dict[str, Any]]:
    text = system if isinstance(system, str) else "\n".join(_texts(system or [], "system"))
    if text:
        yield {"role": "system", "content": text}


def _said(message: Message) -> Iterator[dict[str, Any]]:
    """The messages one of Anthropic's stands for: results of tools are messages of their own."""
    if isinstance(message.content, str):
        yield {"role": message.role, "content": message.content}
    elif message.role == "assistant":
        yield _answer(message.content)
    else:
        yield from _asked(message.content)


def _answer(blocks: list[Block]) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": ""}
    calls = []
    for block in blocks:
        match block.type:
            case "text":
                said["content"] += block.text or ""
            case "thinking":
                said["reasoning_content"] = said.get("reasoning_content", "") + _string(block, "thinking")
            case "redacted_thinking":
                pass
            case "tool_use":
                calls.append(_call(block))
            case _:
                raise _unreadable(block, "assistant messages")
    return said | ({"tool_calls": calls} if calls else {})


def _call(block: Block) -> dict[str, Any]:
    arguments = _field(block, "input")
    if not isinstance(arguments, dict):
        raise InvalidRequest("messages: the input of a tool_use block must be an object")
    function = {"name": _string(block, "name"), "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": _string(block, "id"), "type": "function", "function": function}


def _asked(blocks: list[Block]) -> Iterator[dict[str, Any]]:
    """Results of tools come first, as templates want them; what the user says besides follows."""
    texts: list[str] = []
    for block in blocks:
        if block.type == "tool_result":
            content = _result(_field(block, "content")) or ("error" if _field(block, "is_error") else "")
            yield {"role": "tool", "tool_call_id": _string(block, "tool_use_id"), "content": content}
        else:
            texts += _texts([block], "user messages")
    if texts or not blocks:
        yield {"role": "user", "content": "".join(texts)}


def _result(content: Any) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise InvalidRequest("messages: the content of a tool_result is a text or a list of blocks")
    return "".join(_texts([Block.model_validate(part) for part in content], "results of tools"))


def _texts(blocks: Iterable[Block], where: str) -> Iterator[str]:
    for block in blocks:
        source = _field(block, "source")
        if block.type == "text":
            yield block.text or ""
        elif block.type == "document" and isinstance(source, dict) and source.get("type") == "text":
            yield str(source.get("data", ""))
        else:
            raise _unreadable(block, where)


def _unreadable(block: Block, where: str) -> InvalidRequest:
    return InvalidRequest(f"messages: a block of type {block.type!r} in {where} cannot be read; this server reads text")


def _field(block: Block, name: str) -> Any:
    return (block.model_extra or {}).get(name)


def _string(block: Block, name: str) -> str:
    value = _field(block, name)
    if not isinstance(value, str):
        raise InvalidRequest(f"messages: a {block.type} block needs its {name}, a text")
    return value


def _tool(tool: Tool) -> dict[str, Any]:
    if tool.type not in (None, "custom"):
        raise InvalidRequest(f"tools: {tool.type} runs on Anthropic's servers; define a tool of your own instead")
    if tool.input_schema is None:
        raise InvalidRequest(f"tools: {tool.name} needs its input_schema")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.input_schema}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(body: CountBody) -> dict[str, Any]:
    choice = body.tool_choice
    if choice is None:
        return {}
    found: dict[str, Any] = {"parallel_tool_calls": not choice.disable_parallel_tool_use}
    if choice.type != "tool":
        return found | {"tool_choice": _CHOICES[choice.type]}
    if choice.name is None:
        raise InvalidRequest("tool_choice: name the tool to call")
    return found | {"tool_choice": {"type": "function", "function": {"name": choice.name}}}
