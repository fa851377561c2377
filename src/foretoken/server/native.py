"""llama.cpp's own endpoints, with its fields and shapes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.errors import InvalidRequest
from foretoken.server import chat
from foretoken.server.bodies import Bodies, BodyRoute, described, read_body
from foretoken.server.infill import infill_tokens
from foretoken.server.native_bodies import (
    DetokenizeBody,
    InfillBody,
    NativeBody,
    NativeCompletionBody,
    TemplateBody,
    TokenizeBody,
)
from foretoken.server.native_writer import NativeWriter
from foretoken.server.prompts import prompt_tokens, split_prompts
from foretoken.server.respond import record_of, respond
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.types import Token

BODIES: Bodies = (NativeCompletionBody, InfillBody, TokenizeBody, DetokenizeBody, TemplateBody)


def router(service: Service) -> APIRouter:
    """The routes that read a body; what an operator looks at is elsewhere."""
    routes = APIRouter(tags=["llama.cpp"], route_class=BodyRoute)

    @routes.post("/completions", include_in_schema=False)
    @routes.post("/completion", openapi_extra=described(NativeCompletionBody))
    async def completion(http: HttpRequest) -> Response:
        body = await read_body(http, service, NativeCompletionBody)
        vocabulary = service.vocabulary
        prompts = split_prompts(body.prompt)
        tokens = []
        for prompt in prompts:
            size = len(prompt) if isinstance(prompt, str | list) else 0
            tokens.append(await service.tokenizing(prompt_tokens, prompt, vocabulary, size=size))
        return await _answer(service, http, body, tokens)

    @routes.post("/infill", openapi_extra=described(InfillBody))
    async def infill(http: HttpRequest) -> Response:
        body = await read_body(http, service, InfillBody)
        return await _answer(service, http, body, [await _infill(service, body)])

    @routes.post("/tokenize", openapi_extra=described(TokenizeBody))
    async def tokenize(http: HttpRequest) -> Response:
        return await _tokenize(service, await read_body(http, service, TokenizeBody))

    @routes.post("/detokenize", openapi_extra=described(DetokenizeBody))
    async def detokenize(http: HttpRequest) -> Response:
        body = await read_body(http, service, DetokenizeBody)
        service.vocabulary.check(body.tokens)
        text = service.vocabulary.detokenize(body.tokens)
        return JsonAnswer({"content": text, "prompt": text})

    @routes.post("/apply-template", openapi_extra=described(TemplateBody))
    async def apply_template(http: HttpRequest) -> Response:
        body = await read_body(http, service, TemplateBody)
        return JsonAnswer({"prompt": chat.render(service, body)})

    return routes


async def _answer(service: Service, http: HttpRequest, body: NativeBody, prompts: list[list[Token]]) -> Response:
    unknown = body.refuse_unsupported()
    n = body.n_cmpl or 1
    service.check_choices(n * len(prompts))
    owner = record_of(http).owner
    requests = [
        service.request(body, tokens, owner, max_tokens=body.n_wanted, n=n, logprobs=body.n_probs or None)
        for tokens in prompts
    ]
    writer = NativeWriter(service, body, requests, many=n * len(prompts) > 1)
    return await respond(http, service, requests, writer, stream=bool(body.stream), unknown=unknown, cut=body.cut)


async def _infill(service: Service, body: InfillBody) -> list[Token]:
    vocabulary = service.vocabulary
    extra = body.input_extra or []
    size = len(body.input_prefix) + len(body.input_suffix) + sum(len(piece.text) for piece in extra)

    def build() -> list[Token]:
        prompt = vocabulary.tokenize(body.prompt or "", special=False, add_special=False)
        n_ctx = service.properties.n_ctx
        return infill_tokens(vocabulary, body.input_prefix, body.input_suffix, prompt, extra, n_ctx, body.n_wanted)

    return await service.tokenizing(build, size=size)


async def _tokenize(service: Service, body: TokenizeBody) -> Response:
    vocabulary = service.vocabulary
    parts = body.content if isinstance(body.content, list) else [body.content]
    tokens: list[Token] = []
    for number, part in enumerate(parts):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(
                part, special=body.parse_special, add_special=body.add_special and number == 0
            )
        elif isinstance(part, int) and not isinstance(part, bool):
            vocabulary.check([part])
            tokens.append(part)
        else:
            raise InvalidRequest("content: give a text, or a list of texts and tokens")
    if not body.with_pieces:
        return JsonAnswer({"tokens": tokens})
    return JsonAnswer({"tokens": [{"id": token, "piece": _piece(vocabulary.piece(token))} for token in tokens]})


def _piece(piece: bytes) -> Any:
    """A text where the bytes are one, the bytes where they are not."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
