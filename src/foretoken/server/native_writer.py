"""How /completion and /infill write their answers: llama.cpp's fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from foretoken.server.errors import ApiError
from foretoken.server.generation_settings import settings_body
from foretoken.server.native_bodies import NativeBody
from foretoken.server.service import Service
from foretoken.server.shapes import Choice, probabilities, speculation_body, timings
from foretoken.types import Event, Finish, Request, TokenInfo

_STOP_TYPES = {"length": "limit", "context": "limit", "time": "limit", "cancelled": "none", "error": "none"}


class NativeWriter:
    """One object per choice; in a stream, one per piece and one at the end."""

    last_line = b""

    def __init__(self, service: Service, body: NativeBody, requests: Sequence[Request], many: bool) -> None:
        self._service = service
        self._vocabulary = service.vocabulary
        self._body = body
        self._requests = requests
        self._many = many

    def whole(self, choices: Sequence[Choice]) -> Any:
        bodies = [self._end(number, choice, choice.text) for number, choice in enumerate(choices)]
        return bodies if self._many else bodies[0]

    def opening(self) -> Iterator[Any]:
        yield from ()

    def closing(self, choices: Sequence[Choice]) -> Iterator[Any]:
        yield from ()

    def failing(self, error: ApiError) -> Iterator[Any]:
        yield error.body()

    def piece(self, number: int, event: Event, choice: Choice) -> Iterator[Any]:
        if isinstance(event, Finish):
            yield self._end(number, choice, "")
        elif event.text or event.tokens:
            found = {
                "index": number,
                "content": event.text,
                "tokens": [info.id for info in event.tokens],
                "stop": False,
                "id_slot": -1,
                "tokens_predicted": len(choice.tokens),
                "tokens_evaluated": len(self._request(number).prompt),
            }
            yield self._chosen(found | self._probabilities(event.tokens))

    def _request(self, number: int) -> Request:
        return self._requests[number // self._requests[0].n]

    def _end(self, number: int, choice: Choice, text: str) -> dict[str, Any]:
        finish = choice.finish
        assert finish is not None
        request, usage = self._request(number), finish.usage
        streamed = bool(self._body.stream)
        found = {
            "index": number,
            "content": text,
            "tokens": [info.id for info in choice.tokens] if self._body.return_tokens and not streamed else [],
            "id_slot": -1,
            "stop": True,
            "model": self._service.model_name,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "generation_settings": settings_body(request, self._service.properties.n_ctx, stream=streamed),
            "prompt": self._service.prompt_text(request),
            "has_new_line": "\n" in choice.text,
            "truncated": finish.reason == "context",
            "stop_type": _stop_type(finish),
            "stopping_word": finish.stop or "",
            "tokens_cached": usage.prompt_tokens + usage.completion_tokens,
            "timings": timings(usage),
            "usage": {"speculation": speculation_body([usage])},
        }
        return self._chosen(found if streamed else found | self._probabilities(choice.tokens))

    def _probabilities(self, infos: Sequence[TokenInfo]) -> dict[str, Any]:
        if not self._body.n_probs:
            return {}
        return {"completion_probabilities": probabilities(infos, self._vocabulary)}

    def _chosen(self, found: dict[str, Any]) -> dict[str, Any]:
        """Only the fields that were asked for; a path becomes the name of what it leads to.

        llama.vim asks for [""], which is nothing: it only wants its context to be read.
        """
        names = self._body.response_fields
        if not names:
            return found
        chosen: dict[str, Any] = {}
        for name in names:
            value: Any = found
            for step in name.split("/"):
                value = value.get(step) if isinstance(value, dict) else None
            if value is not None:
                chosen[name] = value
        return chosen


def _stop_type(finish: Finish) -> str:
    if finish.reason == "stop":
        return "eos" if finish.stop is None else "word"
    return _STOP_TYPES[finish.reason]
