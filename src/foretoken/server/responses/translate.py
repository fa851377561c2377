"""From Responses' items to the conversation every dialect shares: OpenAI's messages and tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from foretoken.errors import InvalidRequest
from foretoken.server.chat import ChatBody
from foretoken.server.fields import GenerationFields
from foretoken.server.responses.bodies import ResponsesBody, Tool
from foretoken.server.responses.conversation import messages_of

_SHARED = frozenset(GenerationFields.model_fields)


def chat_body(body: ResponsesBody, items: Iterable[dict[str, Any]]) -> ChatBody:
    """The conversation of these items as the chat core knows it, with everything else the body says."""
    found: dict[str, Any] = {name: getattr(body, name) for name in _SHARED if getattr(body, name) is not None}
    found |= {"messages": messages_of(body.instructions, items), "max_tokens": body.max_output_tokens}
    found["chat_template_kwargs"] = body.chat_template_kwargs
    if body.with_logprobs:
        found |= {"logprobs": True, "top_logprobs": body.top_logprobs}
    if body.reasoning is not None and body.reasoning.effort is not None:
        found["reasoning_effort"] = body.reasoning.effort
        if body.reasoning.effort == "none":
            found["chat_template_kwargs"] = {"enable_thinking": False, **(body.chat_template_kwargs or {})}
    found |= _tools(body)
    if body.text and body.text.format and body.text.format.type != "text":
        found["response_format"] = _format(body)
    return ChatBody.model_validate(found)


def _format(body: ResponsesBody) -> dict[str, Any]:
    assert body.text is not None
    assert body.text.format is not None
    form = body.text.format
    if form.type == "json_object":
        return {"type": "json_object"}
    if form.form is None:
        raise InvalidRequest("text.format: json_schema needs its schema")
    return {"type": "json_schema", "json_schema": {"name": form.name or "answer", "schema": form.form}}


def _tools(body: ResponsesBody) -> dict[str, Any]:
    tools, choice = body.tools or [], body.tool_choice
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = choice.get("tools")
        names = [tool.get("name") for tool in allowed if isinstance(tool, dict)] if isinstance(allowed, list) else []
        tools, choice = [tool for tool in tools if tool.name in names], choice.get("mode", "auto")
    if not tools:
        if choice not in (None, "auto", "none"):
            raise InvalidRequest("tool_choice: there are no tools to call")
        return {}
    found: dict[str, Any] = {"tools": [_tool(tool) for tool in tools]}
    if body.parallel_tool_calls is not None:
        found["parallel_tool_calls"] = body.parallel_tool_calls
    if choice is not None:
        found["tool_choice"] = _choice(choice)
    return found


def _tool(tool: Tool) -> dict[str, Any]:
    if tool.type != "function":
        raise InvalidRequest(f"tools: {tool.type} is not to be had here; define a function and call it yourself")
    if not tool.name:
        raise InvalidRequest("tools: a function needs its name")
    function: dict[str, Any] = {"name": tool.name, "parameters": tool.parameters or {"type": "object"}}
    if tool.description is not None:
        function["description"] = tool.description
    if tool.strict is not None:
        function["strict"] = tool.strict
    return {"type": "function", "function": function}


def _choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, str):
        if choice not in ("auto", "none", "required"):
            raise InvalidRequest("tool_choice: auto, none, required, or one function by its name")
        return choice
    if choice.get("type") != "function" or not isinstance(choice.get("name"), str):
        raise InvalidRequest("tool_choice: only functions can be chosen, by their name")
    return {"type": "function", "function": {"name": choice["name"]}}
