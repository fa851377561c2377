"""The engine watched: one look a second for everyone who watches, none when nobody does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.responses import Response

from foretoken.server.bodies import Bodies
from foretoken.server.errors import ApiError
from foretoken.server.service import Service
from foretoken.server.sse import EventStream, JsonAnswer, line
from foretoken.worker.messages import LiveState, SlotState

BODIES: Bodies = ()

_EVERY = 1.0
_GLANCE = 0.25
"""How often a watch looks whether the server is stopping: it waits for its streams to end."""


def router(service: Service) -> APIRouter:
    """What runs now, once or every second."""
    routes = APIRouter(tags=["status"])
    watch = Watch(service)

    @routes.get("/live")
    async def live() -> Response:
        return JsonAnswer((await watch.look())[0])

    @routes.get("/live/stream", response_class=Response)
    async def stream() -> Response:
        watcher = watch.enter()
        return EventStream(watcher.lines(), {}, lambda: watch.leave(watcher), _failing)

    return routes


class Watcher:
    """One stream; a client that reads slowly misses looks, it does not pile them up."""

    def __init__(self) -> None:
        self._news: asyncio.Queue[bytes | None] = asyncio.Queue(2)

    def tell(self, told: bytes | None) -> None:
        if self._news.full():
            self._news.get_nowait()
        self._news.put_nowait(told)

    async def lines(self) -> AsyncGenerator[bytes, None]:
        while (told := await self._news.get()) is not None:
            yield told


class Watch:
    """Looks at the worker as long as there is a watcher, and shows all of them the same."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None

    def enter(self) -> Watcher:
        watcher = Watcher()
        self._watchers.add(watcher)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._tell())
        return watcher

    def leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        if not self._watchers and self._task is not None:
            self._task.cancel()

    async def look(self, before: LiveState | None = None) -> tuple[dict[str, Any], LiveState | None]:
        """Everything there is to see now; rates only where there was a look before."""
        worker = self._service.worker
        state = await worker.live()
        seen: dict[str, Any] = {
            "time": round(time.time(), 3),
            "model": self._service.model_name,
            "state": worker.state,
            "reason": worker.reason,
            "restarts": worker.n_restarts,
            "running": worker.n_running,
            "waiting": worker.n_waiting,
        }
        return (seen | _engine(state, before) if state else seen), state

    async def _tell(self) -> None:
        before: LiveState | None = None
        while True:
            seen, before = await self.look(before)
            next_look = time.monotonic() + _EVERY
            told = line(seen)
            for watcher in self._watchers:
                watcher.tell(told)
            while (left := next_look - time.monotonic()) > 0:
                if self._service.worker.state == "stopping":
                    for watcher in self._watchers:
                        watcher.tell(None)
                    return
                await asyncio.sleep(min(left, _GLANCE))


def _engine(state: LiveState, before: LiveState | None) -> dict[str, Any]:
    return {
        "uptime": round(state.uptime, 3),
        "slots": [_slot(slot) for slot in state.slots],
        "totals": {"decodes": state.n_decodes, **{name: _round(value) for name, value in state.totals.items()}},
        "rates": _rates(state, before),
        "drafters": {name: msgspec.to_builtins(drafter) for name, drafter in state.drafters.items()},
        "widths": _widths(state),
        "cache": state.cache,
    }


def _slot(slot: SlotState) -> dict[str, Any]:
    """A slot without the name of its request, which is its owner's business."""
    return {
        "id": slot.id,
        "busy": slot.request is not None,
        "reading": slot.prefilling,
        "n_ctx": slot.n_ctx,
        "n_tokens": slot.n_tokens,
        "n_cached": slot.n_cached,
        "n_prompt": slot.n_prompt,
        "n_emitted": slot.n_emitted,
    }


def _rates(state: LiveState, before: LiveState | None) -> dict[str, float] | None:
    """Tokens per second since the look before; a worker that was restarted has none."""
    if before is None or state.uptime <= before.uptime:
        return None
    seconds = state.uptime - before.uptime
    said, read, steps = (
        (now - then) / seconds
        for now, then in (
            (state.totals.get("emitted", 0), before.totals.get("emitted", 0)),
            (state.totals.get("read", 0), before.totals.get("read", 0)),
            (state.n_decodes, before.n_decodes),
        )
    )
    return {"tokens": _round(said), "prompt_tokens": _round(read), "steps": _round(steps)}


def _widths(state: LiveState) -> list[dict[str, Any]]:
    """Steps by width: how many there were, what they took, what the planner expects of them."""
    found = []
    for width in sorted({*state.curve, *state.widths}):
        n, ms = state.widths.get(width, (0, 0.0))
        expected = state.curve.get(width)
        found.append(
            {
                "width": width,
                "steps": n,
                "ms": round(ms / n, 4) if n else None,
                "expected_ms": None if expected is None else round(expected, 4),
            }
        )
    return found


def _round(value: float) -> float:
    return round(value, 3) if isinstance(value, float) else value


def _failing(error: ApiError) -> Iterable[Any]:
    yield error.body("/live")
