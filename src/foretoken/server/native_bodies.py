"""What the bodies of llama.cpp's own endpoints may say."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from foretoken.server.chat import ConversationBody
from foretoken.server.cuts import Cut
from foretoken.server.fields import Count, GenerationFields, Int
from foretoken.server.infill import ExtraContext


class NativeBody(GenerationFields):
    """The fields that /completion and /infill share."""

    n_predict: Int | None = None
    max_tokens: Int | None = None
    n_cmpl: Annotated[int, Field(ge=1, le=128)] | None = None
    n_probs: Annotated[int, Field(ge=0, le=100)] | None = None
    n_indent: Count | None = None
    t_max_predict_ms: Int | None = None
    return_tokens: bool | None = None
    response_fields: Annotated[list[str], Field(max_length=256)] | None = None

    @property
    def n_wanted(self) -> int | None:
        return self.n_predict if self.n_predict is not None else self.max_tokens

    @property
    def cut(self) -> Cut | None:
        seconds = self.t_max_predict_ms / 1e3 if self.t_max_predict_ms and self.t_max_predict_ms > 0 else None
        return Cut(self.n_indent or 0, seconds) if self.n_indent or seconds else None


class NativeCompletionBody(NativeBody):
    """The body of /completion."""

    prompt: Any = Field(description="A text, a list of tokens, or a list of such prompts.")


class InfillBody(NativeBody):
    """The body of /infill."""

    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Annotated[list[ExtraContext], Field(max_length=1024)] | None = None
    prompt: str | None = None


class TokenizeBody(BaseModel):
    """The body of /tokenize; vLLM's names for its fields work too."""

    model_config = ConfigDict(extra="ignore")

    content: Any = Field("", validation_alias=AliasChoices("content", "prompt"))
    add_special: bool = Field(False, validation_alias=AliasChoices("add_special", "add_special_tokens"))
    parse_special: bool = True
    with_pieces: bool = False


class DetokenizeBody(BaseModel):
    """The body of /detokenize."""

    model_config = ConfigDict(extra="ignore")

    tokens: list[Int] = Field(default_factory=list)


class TemplateBody(ConversationBody):
    """The body of /apply-template."""

    model_config = ConfigDict(extra="ignore")
