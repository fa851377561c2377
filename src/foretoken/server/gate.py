"""The door every HTTP request comes through: it gets an id, shows its key, and leaves a line in the log."""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foretoken.server.auth import is_public
from foretoken.server.errors import ApiError, as_api_error
from foretoken.server.logs import request_id
from foretoken.server.record import Record
from foretoken.server.service import Service
from foretoken.server.sse import JsonAnswer

log = logging.getLogger("foretoken.server")

_SANE_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)
_QUIET = ("/health", "/v1/health", "/metrics", "/live", "/page/", "/requests")
"""Asked every few seconds by machines: not worth a line each."""
_CLIENT_GONE = 499

Named = Mapping[str, str]
"""Headers by their names."""


class Gate:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        # The first of several counts.
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        record = Record(_id(headers), scope["method"], scope["path"])
        scope.setdefault("state", {})["record"] = record
        token = request_id.set(record.id)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                name = record.id.encode()
                # Anthropic's clients look for the shorter name.
                message["headers"] = [*message["headers"], (b"x-request-id", name), (b"request-id", name)]
            await send(message)

        try:
            await self._enter(scope, receive, note, headers, record)
        except Exception as error:
            log.exception("%s %s failed", record.method, record.path)
            if not record.status:
                answer = as_api_error(error)
                await JsonAnswer(answer.body(record.path), answer.status)(scope, receive, note)
        finally:
            self._leave(scope, record)
            request_id.reset(token)
        return None

    async def _enter(self, scope: Scope, receive: Receive, send: Send, headers: Named, record: Record) -> None:
        owner = self._service.keys.owner(headers)
        refusal: ApiError | None = None
        if owner is None and not is_public(record.path, headers) and record.method != "OPTIONS":
            refusal = ApiError(401, "Invalid API Key")
        elif _length(headers) > self._service.settings.max_body:
            refusal = too_large(self._service.settings.max_body)
        if refusal is None:
            record.owner = owner or ""
            await self._app(scope, receive, send)
        else:
            answer = JsonAnswer(refusal.body(record.path), refusal.status, refusal.headers())
            await answer(scope, receive, send)

    def _leave(self, scope: Scope, record: Record) -> None:
        record.status = record.status or _CLIENT_GONE
        route = scope.get("route")
        self._service.metrics.answered(record, getattr(route, "path", "other"))
        level = logging.DEBUG if record.path.startswith(_QUIET) else logging.INFO
        log.log(level, "%s", record.line(), extra={"fields": record.fields})


def too_large(limit: int) -> ApiError:
    return ApiError(413, f"the body is larger than {limit} bytes; --max-body raises the limit")


def _id(headers: Named) -> str:
    given = headers.get("x-request-id", "")
    return given if _SANE_ID.fullmatch(given) else secrets.token_hex(6)


def _length(headers: Named) -> int:
    text = headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
