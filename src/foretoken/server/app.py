"""The HTTP application over a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp

from foretoken.errors import ForetokenError
from foretoken.server import live, native, openai, page, requests, slots, status
from foretoken.server.anthropic import routes as anthropic
from foretoken.server.bodies import Bodies, BodyRoute, body_schemas
from foretoken.server.embedding import routes as embedding
from foretoken.server.errors import ApiError, as_api_error
from foretoken.server.gate import Gate
from foretoken.server.lane import Lane
from foretoken.server.responses import routes as responses
from foretoken.server.service import Service
from foretoken.server.sse import ClientGone, JsonAnswer


class Part(Protocol):
    """A module with endpoints."""

    BODIES: Bodies
    """What its routes read by themselves, for the OpenAPI document."""

    def router(self, service: Service) -> APIRouter: ...


PARTS: tuple[Part, ...] = (openai, responses, anthropic, embedding, native, slots, status, live, requests, page)
"""Everything that is served: a new family of endpoints is a module and its name here."""


def create_app(service: Service) -> ASGIApp:
    """Everything between a connection and the worker; the caller starts and closes the service.

    The gate and the lane are in front of FastAPI, not among its layers: what is asked most never enters it.
    """
    routers = [part.router(service) for part in PARTS]
    direct = [route for router in routers for route in router.routes if isinstance(route, BodyRoute)]
    app: ASGIApp = Lane(routed(routers), direct, _answer_failure)
    if service.settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(service.settings.cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["x-request-id"],
        )
    return Gate(app, service)


def routed(routers: Sequence[APIRouter]) -> FastAPI:
    """Every route and every way to fail."""
    app = FastAPI(title="foretoken", version="1", docs_url=None, redoc_url=None)
    for router in routers:
        app.include_router(router)
    for kind in (ApiError, ForetokenError, ValidationError, Exception):
        app.add_exception_handler(kind, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _malformed)
    for gone in (ClientGone, ClientDisconnect):
        app.add_exception_handler(gone, _left)
    _describe_bodies(app)
    return app


async def _failed(http: HttpRequest, error: Exception) -> Response:
    answer = as_api_error(error)
    return JsonAnswer(answer.body(http.scope["path"]), answer.status, answer.headers())


async def _refused(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "there is no such endpoint", 405: "this endpoint does not take this method"}
    answer = ApiError(error.status_code, words.get(error.status_code, str(error.detail)))
    return JsonAnswer(answer.body(http.scope["path"]), answer.status, dict(error.headers or {}))


async def _malformed(http: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    return JsonAnswer(ApiError(400, f"{first['loc'][-1]}: {first['msg']}").body(http.scope["path"]), 400)


async def _answer_failure(http: HttpRequest, error: Exception) -> Response:
    return await (_left if isinstance(error, ClientGone | ClientDisconnect) else _failed)(http, error)


async def _left(_: HttpRequest, __: Exception) -> Response:
    return Response(status_code=499)


def _describe_bodies(app: FastAPI) -> None:
    """Routes read their bodies themselves; the OpenAPI document still says what may be in them."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = plain()
            bodies = tuple(body for part in PARTS for body in part.BODIES)
            schema.setdefault("components", {}).setdefault("schemas", {}).update(body_schemas(bodies))
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]
