"""Server-sent events, and noticing that nobody listens any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from foretoken.server.errors import ApiError, as_api_error

log = logging.getLogger("foretoken.server")

T = TypeVar("T")

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode


class ClientGone(Exception):
    """The client closed its connection before the answer was complete."""


def line(data: Any) -> bytes:
    """One event; one that has a type is named by it, as Anthropic's and OpenAI's newer clients expect."""
    name = data.get("type") if isinstance(data, dict) else None
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + _encode(data) + b"\n\n"


class JsonAnswer(Response):
    """A JSON body, encoded fast."""

    media_type = "application/json; charset=utf-8"

    def render(self, content: Any) -> bytes:
        return _encode(content)


class EventStream(Response):
    """Sends lines as they come, and stops their source as soon as the client is gone.

    The status waits for the first line: until then an error can still be one.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        lines: AsyncIterator[bytes],
        headers: dict[str, str],
        close: Callable[[], None],
        failing: Callable[[ApiError], Iterable[Any]],
    ) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self._lines = lines
        self._close = close
        self._failing = failing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_gone(self._pump(scope, receive, send), receive)
        except ClientGone:
            pass
        finally:
            # A source that was never asked for a line does not know that it is over.
            self._close()

    async def _pump(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False
        try:
            async for data in self._lines:
                if not started:
                    started = True
                    start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                    await send(start)
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except Exception as error:
            answer = as_api_error(error)
            if answer.status == 500:
                log.exception("a stream failed")
            if not started:
                await JsonAnswer(answer.body(scope["path"]), answer.status, answer.headers())(scope, receive, send)
                return
            told = b"".join(line(data) for data in self._failing(answer))
            await send({"type": "http.response.body", "body": told, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def unless_gone(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """The result of some work; when the client leaves first, the work is cancelled."""
    working = asyncio.current_task()
    assert working is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        while (await receive())["type"] != "http.disconnect":
            pass
        gone = True
        working.cancel()

    watching = asyncio.create_task(watch())
    try:
        return await work
    except asyncio.CancelledError:
        if gone and working.uncancel() == 0:
            raise ClientGone from None
        raise
    finally:
        watching.cancel()
