"""What operators and monitors ask: health, properties, slots, metrics."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from foretoken.server.bodies import Bodies
from foretoken.server.errors import ApiError
from foretoken.server.generation_settings import public_settings
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.server.template_caps import template_caps
from foretoken.types import Request
from foretoken.worker.messages import SlotState

BODIES: Bodies = ()


def router(service: Service) -> APIRouter:
    """Routes without bodies."""
    routes = APIRouter(tags=["status"])

    @routes.get("/v1/health", include_in_schema=False)
    @routes.get("/health")
    async def health() -> Response:
        return _health(service)

    @routes.get("/props")
    async def props() -> dict[str, Any]:
        return _props(service)

    @routes.get("/tokenizer_info")
    async def tokenizer_info() -> dict[str, Any]:
        """As vLLM tells it: lm-evaluation-harness needs no tokenizer of its own then."""
        template = service.template
        return {
            "tokenizer_class": "llama.cpp",
            "model_max_length": service.properties.n_ctx,
            "chat_template": template.source,
            "bos_token": template.bos or None,
            "eos_token": template.eos or None,
        }

    @routes.get("/slots")
    async def slots(fail_on_no_slot: str | None = None) -> list[dict[str, Any]]:
        states = await service.worker.slots()
        if fail_on_no_slot and not any(state.request is None for state in states):
            raise ApiError(503, "no slot available", retry_after=1)
        return [_slot(service, state) for state in states]

    @routes.get("/lora-adapters", include_in_schema=False)
    async def adapters() -> list[Any]:
        return []

    @routes.get("/metrics")
    async def metrics() -> Response:
        await service.worker.slots()
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes


def _health(service: Service) -> Response:
    worker = service.worker
    if worker.state == "ready" and service.loaded:
        return JsonAnswer({"status": "ok", "restarts": worker.n_restarts})
    words = {
        "loading": "Loading model",
        "ready": "Loading model",
        "restarting": f"the engine died ({worker.reason}) and is starting again; waiting requests are kept",
        "stopping": "the server is stopping",
        "failed": f"the engine is down: {worker.reason}",
    }
    error = ApiError(503, words[worker.state], retry_after=1, state=worker.state, restarts=worker.n_restarts)
    return JsonAnswer(error.body(), error.status, error.headers())


def _props(service: Service) -> dict[str, Any]:
    properties, settings = service.properties, service.settings
    blank = Request((), settings.sampling, max_tokens=settings.n_predict)
    return {
        "default_generation_settings": {
            "n_ctx": properties.n_ctx,
            "params": public_settings(blank, properties.n_ctx),
        },
        "total_slots": properties.n_slots,
        "model_alias": service.model_name,
        "model_path": properties.model_path,
        "model_ftype": properties.quantisation,
        "modalities": {"vision": False, "video": False, "audio": False},
        "media_marker": "",
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "ui": settings.page,
        "ui_settings": {},
        "cors_proxy_enabled": False,
        "chat_template": service.template.source,
        "chat_template_caps": template_caps(service.template),
        "bos_token": _name(service, service.vocabulary.bos),
        "eos_token": _name(service, service.vocabulary.eos),
        "build_info": properties.library,
        "description": properties.description,
        "drafters": list(properties.drafters),
        "is_sleeping": False,
    }


def _name(service: Service, token: int | None) -> str:
    return "" if token is None else service.vocabulary.piece(token).decode("utf-8", "replace")


def _slot(service: Service, state: SlotState) -> dict[str, Any]:
    busy = state.request is not None
    ticket = service.worker.ticket(state.request)
    n_read = max(0, min(state.n_cached, state.n_prompt) - state.n_reused)
    return {
        "id": state.id,
        "id_task": ticket.number if ticket else -1,
        "n_ctx": state.n_ctx,
        "speculative": bool(service.properties.drafters),
        "is_processing": busy,
        "n_tokens": state.n_tokens,
        "n_cached": state.n_cached,
        "n_kept_bytes": state.n_kept_bytes,
        "n_prompt_tokens": state.n_prompt,
        "n_prompt_tokens_processed": n_read,
        "n_prompt_tokens_cache": state.n_reused,
        "is_reading_prompt": state.prefilling,
        "params": public_settings(ticket.request, state.n_ctx) if ticket else {},
        "next_token": [
            {
                "has_next_token": busy,
                "n_remain": -1 if state.n_wanted is None else state.n_wanted,
                "n_decoded": state.n_emitted,
            }
        ],
    }
