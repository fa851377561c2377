"""The short way to the endpoints that are asked most: no walk through every route and the layers around it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from foretoken.errors import ForetokenError
from foretoken.server.bodies import BodyRoute
from foretoken.server.errors import ApiError
from foretoken.server.sse import ClientGone

EXPECTED = (ApiError, ForetokenError, ValidationError, ClientGone, ClientDisconnect)
"""What an endpoint may raise; anything else is a fault, and handled as one further out."""

Failing = Callable[[HttpRequest, Exception], Awaitable[Response]]


class Lane:
    """ASGI middleware: calls an endpoint that reads its own body by its path alone."""

    def __init__(self, app: ASGIApp, routes: Iterable[BodyRoute], failing: Failing) -> None:
        self._app = app
        self._failing = failing
        self._routes = {
            (method, route.path): route for route in routes if "{" not in route.path for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        route = self._routes.get((scope.get("method", ""), scope.get("path", "")))
        if route is None or scope.get("root_path"):
            return await self._app(scope, receive, send)
        scope["route"] = route
        http = HttpRequest(scope, receive, send)
        try:
            response = await route.endpoint(http)
        except EXPECTED as error:
            response = await self._failing(http, error)
        await response(scope, receive, send)
        return None
