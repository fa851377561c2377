"""From submitted requests to an HTTP response: all at once, or as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Protocol

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.answering import Answering, Numbered
from foretoken.server.cuts import Cut, Cutting
from foretoken.server.details import step_event
from foretoken.server.errors import ApiError
from foretoken.server.record import Record
from foretoken.server.service import Service
from foretoken.server.shapes import Choice
from foretoken.server.sse import KEEP_ALIVE, EventStream, JsonAnswer, line, unless_gone
from foretoken.types import Chunk, Event, Request


class Writer(Protocol):
    """How one endpoint writes its answers."""

    last_line: bytes

    def whole(self, choices: Sequence[Choice]) -> Any:
        """The body that holds everything."""
        ...

    def opening(self) -> Iterable[Any]:
        """Events before the first text."""
        ...

    def piece(self, number: int, event: Event, choice: Choice) -> Iterable[Any]:
        """Events for something that happened; `choice` has taken it already."""
        ...

    def closing(self, choices: Sequence[Choice]) -> Iterable[Any]:
        """Events after the last choice is over."""
        ...

    def failing(self, error: ApiError) -> Iterable[Any]:
        """Events that end a stream which has begun, when it cannot go on."""
        ...


def record_of(http: HttpRequest) -> Record:
    record: Record = http.scope["state"]["record"]
    return record


async def respond(
    http: HttpRequest,
    service: Service,
    requests: Sequence[Request],
    writer: Writer,
    *,
    stream: bool,
    unknown: Sequence[str] = (),
    cut: Cut | None = None,
) -> Response:
    """Submit the requests and answer; a client that leaves takes its requests along."""
    headers = {"x-ignored-fields": ", ".join(_printable(unknown))} if unknown else {}
    record = record_of(http)
    if service.settings.log_prompts:
        record.prompt = "\n".join(service.prompt_text(one) for one in requests)
    answering = Answering(service, requests, record)
    choices = [Choice() for request in requests for _ in range(request.n)]

    kept = False

    def over() -> None:
        nonlocal kept
        answering.close()
        if not kept:
            kept = True
            service.kept.keep(record, requests, choices)

    if stream:
        details = service.vocabulary if requests[0].details else None
        lines = _lines(answering, choices, writer, service.settings.keep_alive, cut, details, over)
        return EventStream(lines, headers, over, writer.failing)
    try:
        await unless_gone(_collect(answering, choices, cut), http.receive)
    finally:
        over()
    return JsonAnswer(writer.whole(choices), headers=headers)


async def _collect(answering: Answering, choices: list[Choice], cut: Cut | None) -> None:
    passing = Cutting(answering, cut).pass_on if cut else _all
    async with aclosing(answering.bursts()) as bursts:
        async for burst in bursts:
            for number, event in passing(burst):
                choices[number].take(event)


async def _lines(
    answering: Answering,
    choices: list[Choice],
    writer: Writer,
    quiet: float,
    cut: Cut | None,
    details: Vocabulary | None,
    over: Callable[[], None],
) -> AsyncGenerator[bytes, None]:
    """What happened in one turn of the event loop is one piece of the stream."""
    passing = Cutting(answering, cut).pass_on if cut else _all
    told: list[Any] = []
    opened = False
    async with aclosing(answering.bursts(quiet)) as bursts:
        async for burst in bursts:
            if not burst:
                yield KEEP_ALIVE
                continue
            if not opened:
                opened = True
                told += writer.opening()
            for number, event in passing(burst):
                choices[number].take(event)
                if details is not None and isinstance(event, Chunk):
                    told.append(step_event(number, event, details))
                told += writer.piece(number, event, choices[number])
            if answering.over:
                told += writer.closing(choices)
                over()
            if piece := b"".join(map(line, told)) + (writer.last_line if answering.over else b""):
                yield piece
            told.clear()


def _all(burst: Iterable[Numbered]) -> Iterable[Numbered]:
    return burst


def _printable(names: Sequence[str]) -> list[str]:
    return [name.encode("ascii", "backslashreplace").decode()[:64] for name in names[:16] if name.isprintable()]
