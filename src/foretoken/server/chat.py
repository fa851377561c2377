"""From a conversation to a prompt: what a chat body may say, through the model's template."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretoken.chat import OPEN
from foretoken.errors import InvalidRequest
from foretoken.server.fields import Count, GenerationFields, Int
from foretoken.server.service import Service
from foretoken.server.tools.definitions import MAX_TOOLS, ToolBody, ToolUse, tool_use

_RESERVED = frozenset({"self", "messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
_ROLES = {"developer": "system"}

REFUSED = {
    "functions": "functions are offered as tools",
    "function_call": "functions are offered as tools",
    "audio": "this server reads and writes text only",
    "web_search_options": "this server has no web search",
    "store": "this server stores no answers",
}
"""OpenAI's fields that change the answer and that we cannot honour."""

WITHOUT_EFFECT = frozenset(
    {"user", "metadata", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention",
     "prediction", "modalities"}
)  # fmt: skip
"""OpenAI's fields that change no answer here, or that are checked where they could."""


class ContentPart(BaseModel):
    """A piece of a message."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class CalledFunction(BaseModel):
    """What was called, with which arguments."""

    model_config = ConfigDict(extra="ignore")

    name: Annotated[str, Field(max_length=256)]
    arguments: str | dict[str, Any] | None = None

    def for_template(self) -> dict[str, Any]:
        """Arguments as an object, which most templates want; what is none stays as it was said."""
        arguments = self.arguments or {}
        if isinstance(arguments, str):
            with contextlib.suppress(ValueError, RecursionError):
                arguments = json.loads(arguments)
        return {"name": self.name, "arguments": arguments}


class CallMade(BaseModel):
    """A call in the history."""

    model_config = ConfigDict(extra="ignore")

    id: Annotated[str, Field(max_length=256)] = ""
    function: CalledFunction


class Message(BaseModel):
    """One turn; what else it carries is for the template."""

    model_config = ConfigDict(extra="allow")

    role: Annotated[str, Field(min_length=1, max_length=64)]
    content: str | list[ContentPart] | None = None
    tool_calls: Annotated[list[CallMade], Field(max_length=256)] | None = None
    tool_call_id: Annotated[str, Field(max_length=256)] | None = None

    def for_template(self) -> dict[str, Any]:
        """The message as templates expect it: its content one text."""
        content = self.content
        if isinstance(content, list):
            if any(part.type != "text" or part.text is None for part in content):
                raise InvalidRequest("messages: this server reads text only")
            content = "".join(part.text or "" for part in content)
        if content is None and not self.tool_calls and not self.model_extra:
            raise InvalidRequest("messages: a message without content says nothing")
        found = {**(self.model_extra or {}), "role": _ROLES.get(self.role, self.role), "content": content or ""}
        if self.tool_calls:
            found["tool_calls"] = [
                {"id": call.id, "function": call.function.for_template()} for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            found["tool_call_id"] = self.tool_call_id
        return found


class ConversationBody(BaseModel):
    """Messages, and what the template may be told."""

    messages: Annotated[list[Message], Field(min_length=1)]
    chat_template_kwargs: dict[str, Any] | None = None
    add_generation_prompt: bool | None = None
    reasoning_effort: Annotated[str, Field(max_length=64)] | None = None
    tools: Annotated[list[ToolBody], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: Any = Field(None, description="auto, none, required, or one function.")
    parallel_tool_calls: bool | None = None

    @property
    def tool_use(self) -> ToolUse:
        """Which tools the answer may or must call."""
        return tool_use(self.tools, self.tool_choice, self.parallel_tool_calls)


class StreamOptions(BaseModel):
    """What a stream carries besides the answer."""

    include_usage: bool | None = None


class ChatBody(ConversationBody, GenerationFields):
    """The body of /v1/chat/completions."""

    max_tokens: Int | None = None
    max_completion_tokens: Int | None = None
    n_predict: Int | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    n_probs: Count | None = None
    stream_options: StreamOptions | None = None
    reasoning_format: Literal["none", "deepseek", "auto"] | None = None

    @property
    def n_wanted(self) -> int | None:
        """Tokens of the answer at most, under whichever name they were asked for."""
        given = (self.max_completion_tokens, self.max_tokens, self.n_predict)
        return next((value for value in given if value is not None), None)

    @property
    def n_logprobs(self) -> int | None:
        """How many alternatives are asked for; None is no probabilities."""
        return (self.top_logprobs or self.n_probs or 0) if self.logprobs or self.top_logprobs else None

    def check(self) -> list[str]:
        """Refuse what cannot be honoured; returns the names of unknown fields."""
        unknown = self.refuse_unsupported(REFUSED)
        extra = self.model_extra or {}
        if extra.get("modalities") not in (None, ["text"]):
            raise InvalidRequest("modalities: this server writes text only")
        return [name for name in unknown if name not in WITHOUT_EFFECT]


def render(service: Service, body: ConversationBody) -> str:
    """The prompt for a conversation, as text."""
    settings = service.settings
    variables: dict[str, Any] = {**settings.chat_template_kwargs, **(body.chat_template_kwargs or {})}
    for name in variables:
        if name in _RESERVED:
            raise InvalidRequest(f"chat_template_kwargs: {name} is set by the server")
    if settings.reasoning != "auto":
        variables.setdefault("enable_thinking", settings.reasoning == "on")
    if body.reasoning_effort is not None:
        variables.setdefault("reasoning_effort", body.reasoning_effort)
    messages = _with_names([message.for_template() for message in body.messages])
    answering = body.add_generation_prompt is not False
    begun = ""
    if answering and len(messages) > 1 and messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]:
        # As llama.cpp's server does: a conversation that ends with the assistant is to be continued there.
        begun = messages.pop()["content"]
    told, of_tools = service.dialect.told(messages, body.tool_use.offered)
    return service.template.render(told, add_generation_prompt=answering, **variables, **of_tools) + begun


def _with_names(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results with the names of the tools that gave them: some templates ask for these."""
    names = {call["id"]: call["function"]["name"] for one in messages for call in one.get("tool_calls", ())}
    for message in messages:
        if message.get("tool_call_id") in names:
            message.setdefault("name", names[message["tool_call_id"]])
    return messages


def thinks_first(prompt: str) -> bool:
    """Whether the prompt ends inside a thought, so that the answer begins there."""
    return prompt.rstrip().endswith(OPEN)
