"""OpenAI's Responses: made, kept, continued, looked up and forgotten."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.errors import InvalidRequest
from foretoken.server.bodies import Bodies, described, read_body
from foretoken.server.errors import ApiError
from foretoken.server.respond import record_of, respond
from foretoken.server.responses.bodies import ResponsesBody
from foretoken.server.responses.store import HistoryLost, Items, Kept, Store
from foretoken.server.responses.translate import chat_body
from foretoken.server.responses.truncation import fitting
from foretoken.server.responses.writer import ResponseWriter
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.server.turn import prepare, prompt_of

BODIES: Bodies = (ResponsesBody,)

_PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs"}


def router(service: Service) -> APIRouter:
    """The routes of the Responses API that a server without background work can have."""
    routes = APIRouter(tags=["OpenAI Responses"])

    @routes.post("/v1/responses", openapi_extra=described(ResponsesBody))
    async def create(http: HttpRequest) -> Response:
        return await _create(service, http)

    @routes.post("/v1/responses/input_tokens", openapi_extra=described(ResponsesBody))
    async def input_tokens(http: HttpRequest) -> Response:
        body = await read_body(http, service, ResponsesBody)
        body.check()
        owner = record_of(http).owner
        history = await _history(service, body, owner)
        _, tokens = await prompt_of(service, chat_body(body, [*history, *_items(body)]), owner)
        return JsonAnswer({"object": "response.input_tokens", "input_tokens": len(tokens)})

    @routes.get("/v1/responses/{name}")
    async def retrieve(http: HttpRequest, name: str, stream: bool = False) -> Response:
        if stream:
            raise InvalidRequest("stream: only a response that is being made can be streamed")
        return JsonAnswer((await _kept(service, http, name)).body)

    @routes.get("/v1/responses/{name}/input_items")
    async def input_items(
        http: HttpRequest,
        name: str,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        order: Literal["asc", "desc"] = "desc",
        after: str | None = None,
    ) -> Response:
        return JsonAnswer(_page(await _given(service, http, name), limit, order, after))

    @routes.delete("/v1/responses/{name}")
    async def delete(http: HttpRequest, name: str) -> Response:
        if not await _store(service).delete(record_of(http).owner, name):
            raise _unknown(name)
        return JsonAnswer({"id": name, "object": "response", "deleted": True})

    @routes.post("/v1/responses/{name}/cancel")
    async def cancel(http: HttpRequest, name: str) -> Response:
        await _kept(service, http, name)
        raise InvalidRequest("only background responses can be cancelled; close the connection to end one early")

    return routes


async def _create(service: Service, http: HttpRequest) -> Response:
    body = await read_body(http, service, ResponsesBody)
    unknown = body.check()
    owner = record_of(http).owner
    history = await _history(service, body, owner)
    items = _items(body)
    if not history and not items and not body.instructions:
        raise InvalidRequest("input: there is nothing to answer")
    chat = chat_body(body, [*history, *items])
    chat.check()
    if body.truncation == "auto":
        chat = await fitting(service, chat, owner)
    turn = await prepare(service, chat, owner)
    store = service.responses if body.store is not False else None
    if store is None and body.store:
        _store(service)

    def keep(response: dict[str, Any]) -> None:
        assert store is not None
        store.put(owner, body.previous_response_id, Kept(items, response))

    writer = ResponseWriter(service, body, turn, keep if store else None)
    return await respond(http, service, [turn.request], writer, stream=bool(body.stream), unknown=unknown)


def _items(body: ResponsesBody) -> Items:
    """What the request says, each piece with a name of its own."""
    if isinstance(body.input, str):
        content = [{"type": "input_text", "text": body.input}]
        return [{"id": _name("message"), "type": "message", "role": "user", "content": content}]
    found = []
    for item in body.input:
        given = {"type": item.type, **(item.model_extra or {})}
        found.append(given if isinstance(given.get("id"), str) else {**given, "id": _name(item.type)})
    return found


def _name(kind: str) -> str:
    return f"{_PREFIXES.get(kind, 'item')}_{secrets.token_hex(12)}"


async def _history(service: Service, body: ResponsesBody, owner: str) -> Items:
    if body.previous_response_id is None:
        return []
    return await _said_before(service, owner, body.previous_response_id)


async def _said_before(service: Service, owner: str, name: str) -> Items:
    try:
        found = await _store(service).history(owner, name, service.settings.max_body)
    except HistoryLost as error:
        raise ApiError(400, str(error), param="previous_response_id") from None
    if found is None:
        raise _unknown(name)
    return found


async def _given(service: Service, http: HttpRequest, name: str) -> Items:
    """Everything a kept response was an answer to."""
    kept, owner = await _kept(service, http, name), record_of(http).owner
    previous = kept.body.get("previous_response_id")
    return [*(await _said_before(service, owner, previous) if previous else []), *kept.input]


def _page(items: Items, limit: int, order: str, after: str | None) -> dict[str, Any]:
    listed = items if order == "asc" else items[::-1]
    if after is not None:
        names = [item["id"] for item in listed]
        if after not in names:
            raise InvalidRequest(f"after: there is no item {after} here")
        listed = listed[names.index(after) + 1 :]
    page = listed[:limit]
    ends: Iterator[str | None] = iter((page[0]["id"], page[-1]["id"]) if page else (None, None))
    return {
        "object": "list",
        "data": page,
        "first_id": next(ends),
        "last_id": next(ends),
        "has_more": len(listed) > limit,
    }


def _store(service: Service) -> Store:
    if service.responses is None:
        raise ApiError(501, "this server keeps no responses; start it with --responses-db FILE")
    return service.responses


async def _kept(service: Service, http: HttpRequest, name: str) -> Kept:
    found = await _store(service).get(record_of(http).owner, name)
    if found is None:
        raise _unknown(name)
    return found


def _unknown(name: str) -> ApiError:
    return ApiError(404, f"there is no response {name[:128]!r}; it may have been deleted, or be too old")
