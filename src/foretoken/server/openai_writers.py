"""How OpenAI's endpoints write their answers, whole and in pieces."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from typing import Any

from foretoken.server.chat import ChatBody
from foretoken.server.completion import CompletionBody, LogprobLists
from foretoken.server.errors import ApiError
from foretoken.server.reading import (
    CallArguments,
    CallBroken,
    CallEnded,
    CallStarted,
    Delta,
    Said,
    Text,
    Thought,
    read_whole,
)
from foretoken.server.service import Service
from foretoken.server.shapes import Choice, finish_reason, probabilities, timings, usage_body
from foretoken.server.sse import DONE
from foretoken.server.turn import Turn
from foretoken.types import Chunk, Event, Finish


class _OpenAiWriter:
    """What both endpoints have in common."""

    last_line = DONE

    def __init__(self, service: Service, prefix: str, kind: str, with_usage: bool, n_prompts: int) -> None:
        self._vocabulary = service.vocabulary
        self._n_prompts = n_prompts
        self._with_usage = with_usage
        self._head = {
            "id": f"{prefix}-{secrets.token_hex(12)}",
            "object": kind,
            "created": int(time.time()),
            "model": service.model_name,
            "system_fingerprint": service.properties.library,
        }

    def opening(self) -> Iterator[Any]:
        yield from ()

    def closing(self, choices: Sequence[Choice]) -> Iterator[Any]:
        """The usage comes in an event of its own, if it was asked for."""
        if self._with_usage:
            yield {**self._head, "choices": [], **self._cost(choices)}

    def failing(self, error: ApiError) -> Iterator[Any]:
        yield error.body()

    def _cost(self, choices: Sequence[Choice]) -> dict[str, Any]:
        finishes = [choice.finish for choice in choices if choice.finish]
        longest = max((finish.usage for finish in finishes), key=lambda usage: usage.generation_ms)
        return {"usage": usage_body(finishes, self._n_prompts), "timings": timings(longest)}


class ChatWriter(_OpenAiWriter):
    """/v1/chat/completions."""

    def __init__(self, service: Service, body: ChatBody, turn: Turn) -> None:
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        super().__init__(service, "chatcmpl", kind, with_usage, 1)
        self._with_logprobs = turn.request.logprobs is not None
        self._readers = [turn.reader() for _ in range(turn.request.n)]

    def whole(self, choices: Sequence[Choice]) -> Any:
        bodies = [self._choice(number, choice) for number, choice in enumerate(choices)]
        return {**self._head, "choices": bodies, **self._cost(choices)}

    def _choice(self, number: int, choice: Choice) -> dict[str, Any]:
        assert choice.finish is not None
        said = read_whole(self._readers[number], choice.text)
        # As OpenAI does: an answer that only calls tools has no content.
        message: dict[str, Any] = {"role": "assistant", "content": said.content or (None if said.calls else "")}
        if said.reasoning:
            message["reasoning_content"] = said.reasoning
        if said.calls:
            message["tool_calls"] = [_call(call.id, call.name, call.arguments) for call in said.calls]
        return {
            "index": number,
            "message": message,
            "logprobs": self._logprobs(choice),
            "finish_reason": _reason(choice.finish, said),
        }

    def _logprobs(self, piece: Choice | Chunk) -> dict[str, Any] | None:
        if not self._with_logprobs:
            return None
        return {"content": probabilities(piece.tokens, self._vocabulary), "refusal": None}

    def opening(self) -> Iterator[Any]:
        for number in range(len(self._readers)):
            yield self._event(number, {"role": "assistant", "content": None})

    def piece(self, number: int, event: Event, choice: Choice) -> Iterator[Any]:
        reader = self._readers[number]
        if isinstance(event, Finish):
            for body in _told(reader.finish()):
                yield self._event(number, body)
            yield self._event(number, {}, _reason(event, reader.said)) | {"timings": timings(event.usage)}
            return
        told = _told(reader.push(event.text))
        logprobs = self._logprobs(event) if event.tokens else None
        # Probabilities go with the first thing told; they are told alone when the text is held back.
        for body in told or ([{}] if logprobs else []):
            yield self._event(number, body, logprobs=logprobs)
            logprobs = None

    def _event(
        self, number: int, delta: dict[str, Any], finish: str | None = None, logprobs: Any = None
    ) -> dict[str, Any]:
        choice = {"index": number, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return {**self._head, "choices": [choice]}


def _told(deltas: Sequence[Delta]) -> list[dict[str, Any]]:
    return [body for delta in deltas if (body := _delta(delta))]


def _delta(delta: Delta) -> dict[str, Any]:
    match delta:
        # A call that was none is text; what a stream has said of it already cannot be taken back.
        case Text(text) | CallBroken(_, text):
            return {"content": text}
        case Thought(text):
            return {"reasoning_content": text}
        case CallStarted(index, call_id, name):
            return {"tool_calls": [{"index": index, **_call(call_id, name, "")}]}
        case CallArguments(index, text):
            return {"tool_calls": [{"index": index, "function": {"arguments": text}}]}
        case CallEnded():
            return {}


def _call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def _reason(finish: Finish, said: Said) -> str:
    """An answer that ends with calls waits for their results."""
    reason = finish_reason(finish)
    return "tool_calls" if said.calls and reason == "stop" else reason


class CompletionWriter(_OpenAiWriter):
    """/v1/completions."""

    def __init__(self, service: Service, body: CompletionBody, n: int, n_prompts: int, echoes: Sequence[str]) -> None:
        with_usage = bool(body.stream_options and body.stream_options.include_usage)
        super().__init__(service, "cmpl", "text_completion", with_usage, n_prompts)
        self._echoes = [echoes[number // n] if echoes else "" for number in range(n * n_prompts)]
        self._logprobs: list[LogprobLists] = []
        if body.n_logprobs is not None:
            self._logprobs = [LogprobLists(service.vocabulary, echo) for echo in self._echoes]

    def whole(self, choices: Sequence[Choice]) -> Any:
        bodies = [
            self._choice(number, self._echoes[number] + choice.text, choice, choice.finish)
            for number, choice in enumerate(choices)
        ]
        return {**self._head, "choices": bodies, **self._cost(choices)}

    def opening(self) -> Iterator[Any]:
        for number, echo in enumerate(self._echoes):
            if echo:
                yield {**self._head, "choices": [self._choice(number, echo, None, None)]}

    def piece(self, number: int, event: Event, choice: Choice) -> Iterator[Any]:
        if isinstance(event, Finish):
            end = self._choice(number, "", None, event)
            yield {**self._head, "choices": [end], "timings": timings(event.usage)}
        elif event.text or (self._logprobs and event.tokens):
            yield {**self._head, "choices": [self._choice(number, event.text, event, None)]}

    def _choice(self, number: int, text: str, said: Choice | Chunk | None, finish: Finish | None) -> dict[str, Any]:
        logprobs = None
        if self._logprobs and said is not None:
            logprobs = self._logprobs[number].take(said.tokens, finish.prompt if finish else ())
        return {
            "index": number,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": finish_reason(finish) if finish else None,
        }
