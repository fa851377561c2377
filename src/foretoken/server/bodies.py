"""Reading a request's body, whatever its content type says: llama.cpp's clients often say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import Receive

from foretoken.server.errors import ApiError
from foretoken.server.gate import too_large
from foretoken.server.service import Service

B = TypeVar("B", bound=BaseModel)
Bodies = tuple[type[BaseModel], ...]

_BODY_SECONDS = 60.0
_REFERENCE = "#/components/schemas/{model}"


class BodyRoute(APIRoute):
    """A route whose endpoint takes the HTTP request and nothing else: there is nothing to look for in it first."""

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        handler: Callable[[HttpRequest], Coroutine[Any, Any, Response]] = self.endpoint
        return handler


async def read_body(http: HttpRequest, service: Service, kind: type[B]) -> B:
    """The body as a model; too long, too slow or malformed bodies are refused with the reason."""
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            data = await _read(http.receive, service.settings.max_body)
    except TimeoutError:
        raise ApiError(408, "the body did not arrive in time") from None
    return kind.model_validate_json(data or b"null")


async def _read(receive: Receive, limit: int) -> bytes:
    data = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        data += message.get("body", b"")
        if len(data) > limit:
            raise too_large(limit)
        more = message.get("more_body", False)
    return bytes(data)


def described(kind: type[BaseModel]) -> dict[str, Any]:
    """The OpenAPI description of a route that reads its body by itself."""
    reference = {"$ref": _REFERENCE.format(model=kind.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def body_schemas(kinds: Bodies) -> dict[str, Any]:
    """The schemas that `described` refers to."""
    _, definitions = models_json_schema([(kind, "validation") for kind in kinds], ref_template=_REFERENCE)
    found: dict[str, Any] = definitions.get("$defs", {})
    return found
