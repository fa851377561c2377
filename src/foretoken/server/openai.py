"""OpenAI's endpoints: models, chat completions and completions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.server.bodies import Bodies, BodyRoute, described, read_body
from foretoken.server.chat import ChatBody
from foretoken.server.completion import CompletionBody
from foretoken.server.errors import ApiError
from foretoken.server.infill import infill_tokens
from foretoken.server.openai_writers import ChatWriter, CompletionWriter
from foretoken.server.prompts import prompt_tokens, split_prompts
from foretoken.server.respond import record_of, respond
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.server.turn import prepare
from foretoken.types import Token

BODIES: Bodies = (ChatBody, CompletionBody)


def router(service: Service) -> APIRouter:
    """The routes of OpenAI's API, with llama.cpp's shorter names beside them."""
    routes = APIRouter(tags=["OpenAI"])
    bodies = APIRouter(tags=["OpenAI"], route_class=BodyRoute)
    started = int(time.time())

    @routes.get("/models", include_in_schema=False)
    @routes.get("/v1/models")
    async def models() -> dict[str, Any]:
        found = [_model(service, started)] if service.loaded else []
        return {"object": "list", "data": found, "models": [_listed(one) for one in found]}

    @routes.get("/v1/models/{name:path}")
    async def model(name: str) -> dict[str, Any]:
        found = _model(service, started)
        if name not in (found["id"], *found["aliases"]):
            raise ApiError(404, f"there is no model named {name}; this server has {found['id']}")
        return found

    @bodies.post("/chat/completions", include_in_schema=False)
    @bodies.post("/v1/chat/completions", openapi_extra=described(ChatBody))
    async def chat_completions(http: HttpRequest) -> Response:
        return await _chat(service, http)

    @bodies.post("/v1/chat/completions/input_tokens", openapi_extra=described(ChatBody))
    async def count_tokens(http: HttpRequest) -> Response:
        body = await read_body(http, service, ChatBody)
        body.check()
        turn = await prepare(service, body, record_of(http).owner)
        return JsonAnswer({"object": "response.input_tokens", "input_tokens": len(turn.request.prompt)})

    @bodies.post("/v1/completions", openapi_extra=described(CompletionBody))
    async def completions(http: HttpRequest) -> Response:
        return await _complete(service, http)

    routes.routes.extend(bodies.routes)
    return routes


def _model(service: Service, started: int) -> dict[str, Any]:
    properties = service.properties
    return {
        "id": service.model_name,
        "object": "model",
        "created": started,
        "owned_by": "foretoken",
        "aliases": [Path(properties.model_path).stem],
        "tags": [],
        "meta": {
            "vocab_type": properties.vocabulary_type,
            "n_vocab": properties.n_vocab,
            "n_ctx": properties.n_ctx,
            "n_ctx_train": properties.n_ctx_train,
            "n_embd": int(properties.metadata.get("embedding_length", "0")),
            "n_params": properties.n_parameters,
            "size": properties.n_bytes,
            "ftype": properties.quantisation,
        },
    }


def _listed(model: dict[str, Any]) -> dict[str, Any]:
    """The same in the words of Ollama's clients, as llama.cpp's server lists it beside OpenAI's."""
    return {
        "name": model["id"], "model": model["id"], "modified_at": "", "size": "", "digest": "", "type": "model",
        "description": "", "tags": [""], "capabilities": ["completion"], "parameters": "",
        "details": {"parent_model": "", "format": "gguf", "family": "", "families": [""], "parameter_size": "",
                    "quantization_level": model["meta"]["ftype"]},
    }  # fmt: skip


async def _chat(service: Service, http: HttpRequest) -> Response:
    body = await read_body(http, service, ChatBody)
    unknown = body.check()
    turn = await prepare(service, body, record_of(http).owner)
    writer = ChatWriter(service, body, turn)
    return await respond(http, service, [turn.request], writer, stream=bool(body.stream), unknown=unknown)


async def _complete(service: Service, http: HttpRequest) -> Response:
    body = await read_body(http, service, CompletionBody)
    unknown = body.check()
    prompts = split_prompts(body.prompt)
    n = body.n or 1
    service.check_choices(n * len(prompts))
    owner = record_of(http).owner
    max_tokens = body.n_wanted
    requests = [
        service.request(
            body,
            tokens,
            owner,
            max_tokens=max_tokens,
            n=n,
            logprobs=body.n_logprobs,
            prompt_logprobs=body.n_prompt_logprobs,
        )
        for tokens in [await _prompt(service, body, prompt, max_tokens) for prompt in prompts]
    ]
    echoes = [service.prompt_text(one) for one in requests] if body.echo else []
    writer = CompletionWriter(service, body, n, len(prompts), echoes)
    return await respond(http, service, requests, writer, stream=bool(body.stream), unknown=unknown)


async def _prompt(service: Service, body: CompletionBody, prompt: Any, max_tokens: int | None) -> list[Token]:
    vocabulary = service.vocabulary
    size = len(prompt) if isinstance(prompt, str | list) else 0
    if body.suffix:
        return infill_tokens(vocabulary, prompt, body.suffix, [], [], service.properties.n_ctx, max_tokens)
    return await service.tokenizing(prompt_tokens, prompt, vocabulary, size=size)
