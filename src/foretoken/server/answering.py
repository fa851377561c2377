"""The answers to one HTTP request: several prompts and choices, one stream of events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from functools import partial

from foretoken.errors import QueueFull
from foretoken.server.errors import ApiError
from foretoken.server.record import Record
from foretoken.server.service import Service
from foretoken.types import Event, Finish, Request
from foretoken.worker.tickets import Ticket

Numbered = tuple[int, Event]
"""An event and the number of its choice among all choices of the HTTP request."""


class Answering:
    """Requests that were submitted together; close it, and those still running are cancelled."""

    def __init__(self, service: Service, requests: Sequence[Request], record: Record) -> None:
        self._service = service
        self._requests = requests
        self._record = record
        self._events: list[tuple[int, Event | Exception]] = []
        self._waiting: asyncio.Future[None] | None = None
        self._reminder: asyncio.TimerHandle | None = None
        self._heard = time.perf_counter()
        self._remaining = sum(request.n for request in requests)
        self._tickets: list[Ticket] = []
        self._open = True
        service.streams.enter(record.owner)
        try:
            for number, request in enumerate(requests):
                self._tickets.append(service.worker.submit(request, partial(self._take, number)))
        except QueueFull as error:
            self.close()
            wait = service.pace.wait(service.worker.n_waiting, service.properties.n_slots)
            raise ApiError(429, str(error), retry_after=wait) from None
        except BaseException:
            self.close()
            raise

    @property
    def over(self) -> bool:
        """Whether every choice has been told to its end."""
        return self._remaining == 0

    @property
    def alone(self) -> bool:
        """Whether every choice is a request of its own and can be cancelled alone."""
        return self._requests[0].n == 1

    def cancel(self, choice: int) -> None:
        """End one choice early; its `Finish` still comes."""
        self._service.worker.cancel(self._tickets[choice // self._requests[0].n])

    def close(self) -> None:
        if self._open:
            self._open = False
            if self._reminder is not None:
                self._reminder.cancel()
            self._service.streams.leave(self._record.owner)
            for ticket in self._tickets:
                self._service.worker.cancel(ticket)

    async def bursts(self, quiet: float | None = None) -> AsyncGenerator[list[Numbered], None]:
        """Everything that has happened since the last look; nothing whenever nothing did for `quiet` seconds."""
        loop = asyncio.get_running_loop()
        if quiet is not None:
            self._reminder = loop.call_later(quiet, self._remind, loop, quiet)
        n = self._requests[0].n
        try:
            while not self.over:
                burst: list[Numbered] = []
                error: Exception | None = None
                for number, event in await self._next(loop):
                    error = self._error(event)
                    if error is not None:
                        break
                    assert not isinstance(event, Exception)
                    burst.append((number * n + event.choice, event))
                if burst or error is None:
                    yield burst
                if error is not None:
                    raise error
        finally:
            self.close()

    def _take(self, number: int, event: Event | Exception) -> None:
        self._heard = time.perf_counter()
        if self._record.first_token is None:
            self._record.first_token = self._heard
        self._events.append((number, event))
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def _next(self, loop: asyncio.AbstractEventLoop) -> list[tuple[int, Event | Exception]]:
        if not self._events:
            self._waiting = loop.create_future()
            await self._waiting
        events, self._events = self._events, []
        return events

    def _remind(self, loop: asyncio.AbstractEventLoop, quiet: float) -> None:
        """One timer for the whole answer, which looks at the time of the last event: one per event is dear."""
        silence = time.perf_counter() - self._heard
        if silence >= quiet:
            silence = 0.0
            self._wake()
        self._reminder = loop.call_later(quiet - silence, self._remind, loop, quiet)

    def _error(self, event: Event | Exception) -> Exception | None:
        """Why the answer cannot go on after this event, if it cannot."""
        if isinstance(event, Exception):
            return event
        if isinstance(event, Finish):
            if event.reason == "invalid":
                return ApiError(400, event.error or "the request cannot be answered")
            if event.reason == "error":
                return ApiError(503, event.error or "the engine failed", retry_after=2)
            self._finished(event)
        return None

    def _finished(self, finish: Finish) -> None:
        self._remaining -= 1
        self._record.finishes.append(finish)
        self._service.metrics.finished(finish)
        usage = finish.usage
        self._service.pace.observe((usage.prompt_ms + usage.generation_ms) / 1e3)
