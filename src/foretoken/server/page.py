"""The page: a few static files that need no key and no network, and may do nothing but ask this server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

import foretoken.dashboard
from foretoken.server.bodies import Bodies
from foretoken.server.errors import ApiError
from foretoken.server.service import Service

BODIES: Bodies = ()

_FILES = Path(foretoken.dashboard.__file__).parent
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


def router(service: Service) -> APIRouter:
    """The page at the root, and what it is made of."""
    routes = APIRouter(include_in_schema=False)
    if not service.settings.page:
        return routes

    @routes.get("/")
    async def page(http: HttpRequest) -> Response:
        return shell(http)

    @routes.get("/page/{name:path}")
    async def file(http: HttpRequest, name: str) -> Response:
        if name not in _files():
            raise ApiError(404, "there is no such file")
        return _answer(http, name)

    return routes


def shell(http: HttpRequest) -> Response:
    """The page itself; which of its views is shown is up to the address."""
    return _answer(http, "index.html")


def wants_page(headers: Mapping[str, str]) -> bool:
    """Whether a browser asks for something to look at."""
    return "text/html" in headers.get("accept", "")


def _answer(http: HttpRequest, name: str) -> Response:
    data, tag = _files()[name]
    headers = {**_HEADERS, "etag": tag}
    if http.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=_TYPES[Path(name).suffix], headers=headers)


@cache
def _files() -> dict[str, tuple[bytes, str]]:
    """Every file there is, by its path: what is not listed cannot be asked for."""
    found = {}
    for path in sorted(_FILES.rglob("*")):
        if path.suffix in _TYPES:
            data = path.read_bytes()
            found[path.relative_to(_FILES).as_posix()] = (data, f'"{hashlib.sha256(data).hexdigest()[:16]}"')
    return found
