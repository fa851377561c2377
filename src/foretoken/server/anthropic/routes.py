"""Anthropic's endpoints: messages, and counting their tokens."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.server.anthropic.bodies import CountBody, MessagesBody
from foretoken.server.anthropic.translate import chat_body
from foretoken.server.anthropic.writer import MessageWriter
from foretoken.server.bodies import Bodies, described, read_body
from foretoken.server.respond import record_of, respond
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer
from foretoken.server.turn import prepare, prompt_of

BODIES: Bodies = (MessagesBody, CountBody)


def router(service: Service) -> APIRouter:
    """The routes of Anthropic's API; its version and beta headers may say what they like."""
    routes = APIRouter(tags=["Anthropic"])

    @routes.post("/v1/messages", openapi_extra=described(MessagesBody))
    async def messages(http: HttpRequest) -> Response:
        body = await read_body(http, service, MessagesBody)
        unknown = body.check()
        chat = chat_body(body)
        chat.check()
        turn = await prepare(service, chat, record_of(http).owner)
        writer = MessageWriter(service, turn)
        return await respond(http, service, [turn.request], writer, stream=bool(body.stream), unknown=unknown)

    @routes.post("/v1/messages/count_tokens", openapi_extra=described(CountBody))
    async def count_tokens(http: HttpRequest) -> Response:
        body = await read_body(http, service, CountBody)
        body.check()
        _, tokens = await prompt_of(service, chat_body(body), record_of(http).owner)
        return JsonAnswer({"input_tokens": len(tokens)})

    return routes
