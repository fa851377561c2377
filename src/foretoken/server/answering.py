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
        self._events: asyncio.Queue[tuple[int, Event | Exception]] = asyncio.Queue()
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
    def alone(self) -> bool:
        """Whether every choice is a request of its own and can be cancelled alone."""
        return self._requests[0].n == 1

    def cancel(self, choice: int) -> None:
        """End one choice early; its `Finish` still comes."""
        self._service.worker.cancel(self._tickets[choice // self._requests[0].n])

    def close(self) -> None:
        if self._open:
            self._open = False
            self._service.streams.leave(self._record.owner)
            for ticket in self._tickets:
                self._service.worker.cancel(ticket)

    async def events(self, quiet: float | None = None) -> AsyncGenerator[Numbered | None, None]:
        """The events as they happen; None whenever nothing happened for `quiet` seconds."""
        remaining = sum(request.n for request in self._requests)
        try:
            while remaining:
                item = await self._next(quiet)
                if item is None:
                    yield None
                    continue
                number, event = item
                if isinstance(event, Exception):
                    raise event
                if isinstance(event, Finish):
                    remaining -= 1
                    self._finished(event)
                yield number * self._requests[0].n + event.choice, event
        finally:
            self.close()

    def _take(self, number: int, event: Event | Exception) -> None:
        if self._record.first_token is None:
            self._record.first_token = time.perf_counter()
        self._events.put_nowait((number, event))

    async def _next(self, quiet: float | None) -> tuple[int, Event | Exception] | None:
        if quiet is None or not self._events.empty():
            return await self._events.get()
        try:
            # Not wait_for: in Python 3.11 it forgets a cancellation that meets a result.
            async with asyncio.timeout(quiet):
                return await self._events.get()
        except TimeoutError:
            return None

    def _finished(self, finish: Finish) -> None:
        if finish.reason == "invalid":
            raise ApiError(400, finish.error or "the request cannot be answered")
        if finish.reason == "error":
            raise ApiError(503, finish.error or "the engine failed", retry_after=2)
        self._record.finishes.append(finish)
        self._service.metrics.finished(finish)
        usage = finish.usage
        self._service.pace.observe((usage.prompt_ms + usage.generation_ms) / 1e3)
