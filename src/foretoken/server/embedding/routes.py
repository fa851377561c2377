"""OpenAI's and llama.cpp's endpoints for embeddings, and ranking."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.errors import InvalidRequest
from foretoken.server.bodies import Bodies, described, read_body
from foretoken.server.embedding.bodies import MAX_TEXTS, EmbeddingBody, RerankBody
from foretoken.server.embedding.ranking import ranking_tokens
from foretoken.server.embedding.vectors import Rows, normalised, rows_of, written
from foretoken.server.errors import ApiError
from foretoken.server.prompts import prompt_tokens, split_prompts
from foretoken.server.respond import record_of
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer, unless_gone
from foretoken.types import Token
from foretoken.worker.messages import EmbeddingProperties

BODIES: Bodies = (EmbeddingBody, RerankBody)


def router(service: Service) -> APIRouter:
    """Every model has the routes; one that cannot says why."""
    routes = APIRouter(tags=["Embeddings"])

    @routes.post("/v1/embeddings", openapi_extra=described(EmbeddingBody))
    async def embeddings(http: HttpRequest) -> Response:
        return await _embeddings(service, http, native=False)

    @routes.post("/embeddings", include_in_schema=False)
    @routes.post("/embedding", openapi_extra=described(EmbeddingBody))
    async def native_embeddings(http: HttpRequest) -> Response:
        return await _embeddings(service, http, native=True)

    @routes.post("/reranking", include_in_schema=False)
    @routes.post("/v1/reranking", include_in_schema=False)
    @routes.post("/rerank", include_in_schema=False)
    @routes.post("/v1/rerank", openapi_extra=described(RerankBody))
    async def rerank(http: HttpRequest) -> Response:
        return await _rerank(service, http)

    return routes


async def _embeddings(service: Service, http: HttpRequest, native: bool) -> Response:
    makes = _able(service)
    if makes.pooling == "rank":
        raise ApiError(501, "this model ranks documents and makes no embeddings; ask /v1/rerank")
    body = await read_body(http, service, EmbeddingBody)
    inputs = split_prompts(body.given)
    native = native or body.input is None
    if makes.pooling == "none" and not native:
        raise InvalidRequest("with --pooling none there is a vector for every token; ask /embedding for them")
    _check_number(len(inputs))
    vocabulary = service.vocabulary
    size = sum(len(one) for one in inputs if isinstance(one, str | list))
    texts = await service.tokenizing(lambda: [prompt_tokens(one, vocabulary) for one in inputs], size=size)
    found = await _vectors(service, http, makes, texts)
    if makes.pooling != "none":
        found = [normalised(rows, body.embd_normalize) for rows in found]
    form = body.encoding_format
    if native:
        answer: Any = [
            {"index": at, "embedding": [written(row, form) for row in rows]} for at, rows in enumerate(found)
        ]
    else:
        data = [
            {"object": "embedding", "index": at, "embedding": written(rows[0], form)} for at, rows in enumerate(found)
        ]
        answer = {"object": "list", "model": service.model_name, "data": data, "usage": _usage(texts)}
    return await asyncio.to_thread(JsonAnswer, answer)


async def _rerank(service: Service, http: HttpRequest) -> Response:
    makes = _able(service)
    if makes.pooling != "rank":
        raise ApiError(501, "this model does not rank documents; serve one that was made to (a reranker)")
    body = await read_body(http, service, RerankBody)
    documents = body.given
    template = service.properties.metadata.get("tokenizer.chat_template.rerank")
    size = sum(len(one) + len(body.query) for one in documents)
    texts = await service.tokenizing(ranking_tokens, service.vocabulary, template, body.query, documents, size=size)
    scores = [float(rows[0][0]) for rows in await _vectors(service, http, makes, texts)]
    shown: list[dict[str, Any]]
    order = sorted(range(len(scores)), key=lambda at: -scores[at])[: body.top_n or len(scores)]
    if body.texts is not None:
        shown = [{"text": documents[at]} if body.return_text else {} for at in order]
        return JsonAnswer([{"index": at, "score": scores[at], **text} for at, text in zip(order, shown, strict=True)])
    shown = [{"document": {"text": documents[at]}} if body.return_documents else {} for at in order]
    results = [{"index": at, "relevance_score": scores[at], **text} for at, text in zip(order, shown, strict=True)]
    return JsonAnswer({"object": "list", "model": service.model_name, "usage": _usage(texts), "results": results})


def _able(service: Service) -> EmbeddingProperties:
    found = service.properties.embedding
    if found is None:
        raise ApiError(501, "this server makes no embeddings; start it with --embeddings")
    return found


def _check_number(n: int) -> None:
    if n > MAX_TEXTS:
        raise InvalidRequest(f"input: at most {MAX_TEXTS} texts at once, not {n}")


async def _vectors(
    service: Service, http: HttpRequest, makes: EmbeddingProperties, texts: Sequence[list[Token]]
) -> list[Rows]:
    for tokens in texts:
        if not tokens:
            raise InvalidRequest("input: an empty text has no embedding")
        if len(tokens) > makes.n_max:
            raise ApiError(
                400,
                f"a text has {len(tokens)} tokens and the longest that can be embedded has {makes.n_max}; "
                "shorten it, or start with larger batches (-ub)",
                kind="exceed_context_size_error",
            )
    owner = record_of(http).owner
    service.streams.enter(owner)
    try:
        found = await unless_gone(service.worker.embed(texts), http.receive)
    finally:
        service.streams.leave(owner)
    return [rows_of(data, makes.n_out) for data in found]


def _usage(texts: Sequence[list[Token]]) -> dict[str, int]:
    n = sum(len(tokens) for tokens in texts)
    return {"prompt_tokens": n, "total_tokens": n}
