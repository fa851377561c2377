"""The requests that are kept: a list, and for each how its answer came about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.server.bodies import Bodies
from foretoken.server.details import step_body, tokens_body
from foretoken.server.errors import ApiError
from foretoken.server.generation_settings import settings_body
from foretoken.server.page import shell, wants_page
from foretoken.server.requests_kept import KeptRequest
from foretoken.server.respond import record_of
from foretoken.server.service import Service
from foretoken.server.shapes import Choice, speculation_body, timings
from foretoken.server.sse import JsonAnswer

BODIES: Bodies = ()


def router(service: Service) -> APIRouter:
    """A list of the caller's own requests, and each of them."""
    routes = APIRouter(tags=["status"])

    @routes.get("/requests")
    async def requests(http: HttpRequest) -> Response:
        kept = service.kept.of(record_of(http).owner)
        return JsonAnswer({"object": "list", "data": [_summary(one) for one in kept]})

    @routes.get("/requests/{name}")
    async def request(http: HttpRequest, name: str) -> Response:
        if service.settings.page and wants_page(http.headers):
            return shell(http)
        kept = service.kept.get(record_of(http).owner, name)
        if kept is None:
            raise ApiError(404, "no request with this id is kept for this key; only the latest are")
        return JsonAnswer(_body(service, kept))

    return routes


def _summary(kept: KeptRequest) -> dict[str, Any]:
    usages = [choice.usage for choice in kept.choices]
    longest = max(usages, key=lambda usage: usage.generation_ms)
    return {
        "id": kept.id,
        "object": "foretoken.request",
        "path": kept.path,
        "ended": round(kept.ended, 3),
        "beginning": kept.choices[0].text[:80],
        "n_prompt": kept.n_prompt,
        "n_tokens": sum(len(choice.tokens) for choice in kept.choices),
        "n_guessed": sum(step.accepted for choice in kept.choices for step, _ in choice.steps),
        "tokens_per_second": timings(longest)["predicted_per_second"],
        "saved_ms": speculation_body(usages)["saved_ms"],
    }


def _body(service: Service, kept: KeptRequest) -> dict[str, Any]:
    return {
        **_summary(kept),
        "model": service.model_name,
        "prompt_end": service.vocabulary.detokenize(list(kept.prompt)),
        "settings": settings_body(kept.request, service.properties.n_ctx),
        "choices": [_choice(service, number, choice) for number, choice in enumerate(kept.choices)],
    }


def _choice(service: Service, number: int, choice: Choice) -> dict[str, Any]:
    finish, usage = choice.finish, choice.usage
    return {
        "index": number,
        "text": choice.text,
        "finish": finish.reason if finish else "cancelled",
        "stop": finish.stop if finish else None,
        "tokens": tokens_body(choice.tokens, service.vocabulary),
        "steps": _steps(choice),
        "timings": timings(usage) if finish else None,
        "speculation": speculation_body([usage]) if finish else None,
    }


def _steps(choice: Choice) -> Sequence[dict[str, Any]]:
    return [step_body(step, n_tokens) for step, n_tokens in choice.steps]
