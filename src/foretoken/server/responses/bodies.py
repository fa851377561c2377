"""What the body of /v1/responses may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretoken.server.fields import Count, GenerationFields

REFUSED = {
    "background": "answers are made while the client waits; use stream",
    "conversation": "conversations are continued with previous_response_id",
    "prompt": "there are no stored prompts; send instructions and input",
    "context_management": "histories are not compacted; use truncation",
    "moderation": "nothing is moderated here",
}
"""OpenAI's fields that change the answer and that we cannot honour."""

WITHOUT_EFFECT = frozenset(
    {"user", "service_tier", "safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
     "stream_options", "max_tool_calls", "access_programs", "image"}
)  # fmt: skip
"""OpenAI's fields that change no answer here."""


class Item(BaseModel):
    """A piece of a conversation: a message when it does not say what it is."""

    model_config = ConfigDict(extra="allow")

    type: str = "message"


class Tool(BaseModel):
    """A function the client can call."""

    model_config = ConfigDict(extra="allow")

    type: str
    name: Annotated[str, Field(max_length=128)] | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Format(BaseModel):
    """The form the text must have."""

    model_config = ConfigDict(extra="allow")

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    form: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class TextConfig(BaseModel):
    """How text is written."""

    model_config = ConfigDict(extra="allow")

    format: Format | None = None
    verbosity: str | None = None


class Reasoning(BaseModel):
    """How much the model should think."""

    model_config = ConfigDict(extra="allow")

    effort: Annotated[str, Field(max_length=64)] | None = None
    summary: str | None = None


class ResponsesBody(GenerationFields):
    """The body of /v1/responses."""

    input: str | list[Item] = Field(default_factory=list)
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(max_length=128)] | None = None
    store: bool | None = None
    max_output_tokens: Count | None = None
    tools: list[Tool] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    include: list[str] | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def check(self) -> list[str]:
        """Refuse what cannot be honoured; returns the names of unknown fields."""
        return [name for name in self.refuse_unsupported(REFUSED) if name not in WITHOUT_EFFECT]

    @property
    def with_logprobs(self) -> bool:
        return bool(self.top_logprobs) or "message.output_text.logprobs" in (self.include or [])
