"""How /v1/responses writes its answers: one response object, whole or in numbered events."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from foretoken.server.errors import ApiError
from foretoken.server.reading import Delta
from foretoken.server.responses.bodies import ResponsesBody
from foretoken.server.responses.output import Output
from foretoken.server.service import Service
from foretoken.server.shapes import Choice, probabilities, speculation_body
from foretoken.server.turn import Turn
from foretoken.types import Event, Finish

Keep = Callable[[dict[str, Any]], None]


class ResponseWriter:
    """One response; `keep` gets it when it is complete."""

    last_line = b""

    def __init__(self, service: Service, body: ResponsesBody, turn: Turn, keep: Keep | None) -> None:
        self._vocabulary = service.vocabulary
        self._reader = turn.reader()
        self._output = Output()
        self._keep = keep
        self._with_logprobs = turn.request.logprobs is not None
        self._waiting: list[dict[str, Any]] = []
        """Probabilities of text that is not sorted yet."""
        self._numbers = count()
        self._head = _head(service, body, turn, stored=keep is not None)

    def whole(self, choices: Sequence[Choice]) -> Any:
        choice = choices[0]
        self._waiting = probabilities(choice.tokens, self._vocabulary) if self._with_logprobs else []
        for delta in (*self._reader.push(choice.text), *self._reader.finish()):
            self._write(delta)
        return self._completed(choice)

    def opening(self) -> Iterator[Any]:
        begun = self._response("in_progress", usage=None)
        yield self._numbered({"type": "response.created", "response": begun})
        yield self._numbered({"type": "response.in_progress", "response": begun})

    def piece(self, number: int, event: Event, choice: Choice) -> Iterator[Any]:
        if isinstance(event, Finish):
            deltas = self._reader.finish()
        else:
            deltas = self._reader.push(event.text)
            if self._with_logprobs:
                self._waiting += probabilities(event.tokens, self._vocabulary)
        for delta in deltas:
            for told in self._write(delta):
                yield self._numbered(told)

    def _write(self, delta: Delta) -> list[dict[str, Any]]:
        told = list(self._output.write(delta, self._waiting))
        self._waiting = []
        return told

    def closing(self, choices: Sequence[Choice]) -> Iterator[Any]:
        finish = choices[0].finish
        assert finish is not None
        for told in self._output.close("incomplete" if _incomplete(finish) else "completed"):
            yield self._numbered(told)
        response = self._completed(choices[0])
        yield self._numbered({"type": f"response.{response['status']}", "response": response})

    def failing(self, error: ApiError) -> Iterator[Any]:
        for told in self._output.close("incomplete"):
            yield self._numbered(told)
        code = "rate_limit_exceeded" if error.status == 429 else "server_error"
        failed = self._response("failed", error={"code": code, "message": error.message}, usage=None)
        yield self._numbered({"type": "response.failed", "response": failed})

    def _numbered(self, event: dict[str, Any]) -> dict[str, Any]:
        return {**event, "sequence_number": next(self._numbers)}

    def _completed(self, choice: Choice) -> dict[str, Any]:
        finish = choice.finish
        assert finish is not None
        status = "incomplete" if _incomplete(finish) else "completed"
        list(self._output.close(status))
        details = {"reason": "max_output_tokens"} if _incomplete(finish) else None
        response = self._response(status, incomplete_details=details, usage=self._usage(finish))
        if self._keep is not None:
            self._keep(response)
        return response

    def _response(self, status: str, **fields: Any) -> dict[str, Any]:
        return {**self._head, "status": status, "output": list(self._output.items), **fields}

    def _usage(self, finish: Finish) -> dict[str, Any]:
        usage, thoughts = finish.usage, self._reader.said.reasoning
        n_thought = len(self._vocabulary.tokenize(thoughts, special=False, add_special=False)) if thoughts else 0
        return {
            "input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": min(n_thought, usage.completion_tokens)},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "speculation": speculation_body([usage]),
        }


def _incomplete(finish: Finish) -> bool:
    return finish.reason not in ("stop", "cancelled")


def _head(service: Service, body: ResponsesBody, turn: Turn, stored: bool) -> dict[str, Any]:
    """What the response says of the request; null is what was not said."""
    text = body.text.model_dump(by_alias=True, exclude_none=True) if body.text else {}
    return {
        "id": f"resp_{secrets.token_hex(16)}",
        "object": "response",
        "created_at": int(time.time()),
        "error": None,
        "incomplete_details": None,
        "instructions": body.instructions,
        "max_output_tokens": body.max_output_tokens,
        "model": service.model_name,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "reasoning": {
            "effort": body.reasoning.effort if body.reasoning else None,
            "summary": body.reasoning.summary if body.reasoning else None,
        },
        "store": stored,
        "temperature": turn.request.sampling.temperature,
        "text": {"format": {"type": "text"}, **text},
        "tool_choice": body.tool_choice or "auto",
        "tools": [tool.model_dump(exclude_unset=True) for tool in body.tools or []],
        "top_p": turn.request.sampling.top_p,
        "top_logprobs": body.top_logprobs or 0,
        "truncation": body.truncation or "disabled",
        "background": False,
        "user": (body.model_extra or {}).get("user"),
        "metadata": body.metadata or {},
    }
