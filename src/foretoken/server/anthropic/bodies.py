"""What the bodies of Anthropic's endpoints may say."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from foretoken.server.fields import MAX_STOPS, Count, GenerationFields, StopText

WITHOUT_EFFECT = frozenset(
    {"metadata", "service_tier", "cache_control", "betas", "diagnostics", "inference_geo", "speed", "user_profile_id",
     "workspace_id", "context_management"}
)  # fmt: skip
"""Fields that change no answer here: prompts are always cached, there is one tier and one place."""

REFUSED = {
    "container": "this server runs no code",
    "mcp_servers": "this server reaches no other servers; call their tools yourself",
    "fallbacks": "one model is served here",
}
"""Fields that change the answer and that we cannot honour."""


class Block(BaseModel):
    """A piece of a message, a system prompt or a tool's result."""

    model_config = ConfigDict(extra="allow")

    type: str
    text: str | None = None


class Message(BaseModel):
    """One turn of either side."""

    role: Literal["user", "assistant"]
    content: str | list[Block]


class Tool(BaseModel):
    """A tool of the client's own."""

    model_config = ConfigDict(extra="allow")

    type: str | None = None
    name: Annotated[str, Field(min_length=1, max_length=128)]
    description: str | None = None
    input_schema: dict[str, Any] | None = None
    strict: bool | None = None


class ToolChoice(BaseModel):
    """Whether tools are to be called, and which."""

    type: Literal["auto", "any", "tool", "none"]
    name: str | None = None
    disable_parallel_tool_use: bool | None = None


class Thinking(BaseModel):
    """Whether the model thinks first; how much is its own decision."""

    type: Literal["enabled", "disabled", "adaptive"]
    budget_tokens: Count | None = None


class OutputFormat(BaseModel):
    """The form the answer must have."""

    type: Literal["json_schema"]
    form: dict[str, Any] = Field(alias="schema")


class OutputConfig(BaseModel):
    """How the answer is to be written."""

    effort: Annotated[str, Field(max_length=64)] | None = None
    format: OutputFormat | None = None


class CountBody(GenerationFields):
    """The body of /v1/messages/count_tokens, and all of a message's body but its length."""

    messages: Annotated[list[Message], Field(min_length=1)]
    system: str | list[Block] | None = None
    tools: list[Tool] | None = None
    tool_choice: ToolChoice | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    output_format: OutputFormat | None = None
    stop_sequences: Annotated[list[StopText], Field(max_length=MAX_STOPS)] | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def check(self) -> list[str]:
        """Refuse what cannot be honoured; returns the names of unknown fields."""
        return [name for name in self.refuse_unsupported(REFUSED) if name not in WITHOUT_EFFECT]


class MessagesBody(CountBody):
    """The body of /v1/messages."""

    max_tokens: Count
