"""How /v1/messages writes its answers: blocks, whole or event by event."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

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
from foretoken.server.shapes import Choice, speculation_body
from foretoken.server.turn import Turn
from foretoken.types import Event, Finish

_PATH = "/v1/messages"


class MessageWriter:
    """One message; in a stream its blocks begin, grow and end one after the other."""

    last_line = b""

    def __init__(self, service: Service, turn: Turn) -> None:
        self._reader = turn.reader()
        self._n_prompt = len(turn.request.prompt)
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": service.model_name,
        }
        self._n_blocks = 0
        self._open: str | None = None
        """The type of the block that is being written."""

    def whole(self, choices: Sequence[Choice]) -> Any:
        choice = choices[0]
        assert choice.finish is not None
        said = read_whole(self._reader, choice.text)
        return {**self._head, "content": _blocks(said), **_end(choice.finish, said), "usage": _usage(choice.finish)}

    def opening(self) -> Iterator[Any]:
        # How much of the prompt was cached is known at the end, and said there.
        usage = {"input_tokens": self._n_prompt, "output_tokens": 0, **_CACHE_UNKNOWN}
        message: dict[str, Any] = {
            **self._head,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        yield {"type": "message_start", "message": message}
        yield {"type": "ping"}

    def piece(self, number: int, event: Event, choice: Choice) -> Iterator[Any]:
        ended = isinstance(event, Finish)
        for delta in self._reader.finish() if isinstance(event, Finish) else self._reader.push(event.text):
            yield from self._write(delta)
        if ended:
            yield from self._close()

    def closing(self, choices: Sequence[Choice]) -> Iterator[Any]:
        finish = choices[0].finish
        assert finish is not None
        yield {"type": "message_delta", "delta": _end(finish, self._reader.said), "usage": _usage(finish)}
        yield {"type": "message_stop"}

    def failing(self, error: ApiError) -> Iterator[Any]:
        yield error.body(_PATH)

    def _write(self, delta: Delta) -> Iterator[Any]:
        match delta:
            # A call that was none is text; the block a stream has begun for it cannot be taken back.
            case Text(text) | CallBroken(_, text):
                yield from self._continue({"type": "text", "text": ""})
                yield self._grow({"type": "text_delta", "text": text})
            case Thought(text):
                yield from self._continue({"type": "thinking", "thinking": "", "signature": ""})
                yield self._grow({"type": "thinking_delta", "thinking": text})
            case CallStarted(_, call_id, name):
                yield from self._begin({"type": "tool_use", "id": call_id, "name": name, "input": {}})
            case CallArguments(_, text):
                yield self._grow({"type": "input_json_delta", "partial_json": text})
            case CallEnded():
                yield from self._close()

    def _continue(self, block: dict[str, Any]) -> Iterator[Any]:
        if self._open != block["type"]:
            yield from self._begin(block)

    def _begin(self, block: dict[str, Any]) -> Iterator[Any]:
        yield from self._close()
        self._open = block["type"]
        yield {"type": "content_block_start", "index": self._n_blocks, "content_block": block}

    def _grow(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._n_blocks, "delta": delta}

    def _close(self) -> Iterator[Any]:
        if self._open is None:
            return
        if self._open == "thinking":
            yield self._grow({"type": "signature_delta", "signature": ""})
        yield {"type": "content_block_stop", "index": self._n_blocks}
        self._open = None
        self._n_blocks += 1


_CACHE_UNKNOWN = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _blocks(said: Said) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if said.reasoning:
        found.append({"type": "thinking", "thinking": said.reasoning, "signature": ""})
    if said.content:
        found.append({"type": "text", "text": said.content})
    for call in said.calls:
        found.append({"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)})
    return found


def _input(arguments: str) -> dict[str, Any]:
    """The arguments as an object; those of a call that was cut short are handed on as they are."""
    try:
        value = json.loads(arguments or "{}")
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": arguments}


def _end(finish: Finish, said: Said) -> dict[str, Any]:
    return {"stop_reason": _reason(finish, said), "stop_sequence": finish.stop}


def _reason(finish: Finish, said: Said) -> str:
    match finish.reason:
        case "stop" | "cancelled":
            return "tool_use" if said.calls else "end_turn" if finish.stop is None else "stop_sequence"
        case "context":
            return "model_context_window_exceeded"
    return "max_tokens"


def _usage(finish: Finish) -> dict[str, Any]:
    usage = finish.usage
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "speculation": speculation_body([usage]),
    }
