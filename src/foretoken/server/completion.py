"""The text completions of OpenAI: what a body may say, and its legacy way to write probabilities."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.chat import WITHOUT_EFFECT as CHAT_WITHOUT_EFFECT
from foretoken.server.chat import StreamOptions
from foretoken.server.fields import Count, GenerationFields, Int
from foretoken.server.shapes import probabilities, probability_of
from foretoken.types import TokenInfo


class CompletionBody(GenerationFields):
    """The body of /v1/completions."""

    prompt: Any = Field(description="A text, a list of tokens, or a list of such prompts.")
    suffix: str | None = None
    max_tokens: Int | None = None
    max_completion_tokens: Int | None = None
    n_predict: Int | None = None
    n: Annotated[int, Field(ge=1, le=128)] | None = None
    best_of: Annotated[int, Field(ge=0)] | None = None
    echo: bool | None = None
    logprobs: Annotated[int, Field(ge=0, le=100)] | bool | None = None
    n_probs: Count | None = None
    stream_options: StreamOptions | None = None

    def check(self) -> list[str]:
        """Refuse what cannot be honoured; returns the names of unknown fields."""
        if self.best_of not in (None, 0, 1, self.n or 1):
            raise InvalidRequest("best_of: answers are not ranked here; ask for n of them")
        if self.stream and self.n_prompt_logprobs is not None:
            raise InvalidRequest("echo: probabilities of the prompt do not stream; leave stream or logprobs out")
        return [name for name in self.refuse_unsupported() if name not in CHAT_WITHOUT_EFFECT]

    @property
    def n_wanted(self) -> int | None:
        """Tokens of the answer at most, under whichever name they were asked for."""
        given = (self.max_tokens, self.max_completion_tokens, self.n_predict)
        return next((value for value in given if value is not None), None)

    @property
    def n_logprobs(self) -> int | None:
        """How many alternatives are asked for; None is no probabilities."""
        if isinstance(self.logprobs, bool):
            return (self.n_probs or 0) if self.logprobs else None
        return self.logprobs if self.logprobs is not None else self.n_probs or None

    @property
    def n_prompt_logprobs(self) -> int | None:
        """Likewise for the prompt: an echo comes with its probabilities."""
        return self.n_logprobs if self.echo else None


class LogprobLists:
    """Probabilities as lists side by side, with llama.cpp's list of objects beside them."""

    def __init__(self, vocabulary: Vocabulary, echo: str = "") -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = len(echo)

    def take(self, infos: Sequence[TokenInfo], prompt: Sequence[TokenInfo] = ()) -> dict[str, Any]:
        """The lists for these tokens, which follow those taken before; a prompt begins before the echo."""
        content = [probability_of(info, self._vocabulary) for info in prompt]
        content += probabilities(infos, self._vocabulary)
        if prompt:
            self._offset = 0
        return {
            "tokens": [entry["token"] for entry in content],
            "token_logprobs": [entry["logprob"] for entry in content],
            "top_logprobs": [_alternatives(entry) for entry in content],
            "text_offset": [self._place(entry) for entry in content],
            "content": content,
        }

    def _place(self, entry: dict[str, Any]) -> int:
        """Where a token begins in the text, counted in characters."""
        place = self._offset
        self._offset += len(self._decoder.decode(bytes(entry["bytes"])))
        return place


def _alternatives(entry: dict[str, Any]) -> dict[str, float] | None:
    """The first token of a prompt follows nothing: it has no probability, and no alternatives."""
    if entry["logprob"] is None:
        return None
    return {top["token"]: top["logprob"] for top in entry["top_logprobs"]}
