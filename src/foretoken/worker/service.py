"""The worker process itself: takes orders from its input, runs the engine, reports on its output."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator

from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.engine.session import Session
from foretoken.engine.validation import prompt_tokens
from foretoken.errors import EngineStopped, ForetokenError, InvalidRequest
from foretoken.types import Event, Finish, Request
from foretoken.worker import messages
from foretoken.worker.live import live_state, slot_states
from foretoken.worker.messages import (
    Cancel,
    Ended,
    Frames,
    Order,
    Said,
    Start,
    Stop,
    Submit,
)
from foretoken.worker.properties import properties_of
from foretoken.worker.reporter import Reporter

log = logging.getLogger("foretoken.worker")

_READ_SIZE = 1 << 20
_PULSE = 0.5


class Service:
    """Obeys orders with one engine."""

    def __init__(self, engine: Engine, reporter: Reporter) -> None:
        self._engine = engine
        self._reporter = reporter
        self._sessions: dict[str, list[Session]] = {}
        self._started = time.monotonic()

    def obey(self, orders: list[Order]) -> None:
        """Hand a burst of orders to the engine in one go: all of them count for its next step."""
        requests = [order.request for order in orders if isinstance(order, Submit)]
        ready = [(one, tokens) for one in requests if (tokens := self._tokens(one)) is not None]
        cancelled = [order.id for order in orders if isinstance(order, Cancel)]

        def apply(loop: Loop) -> None:
            for request, tokens in ready:
                self._submit(loop, request, tokens)
            for name in cancelled:
                for session in self._sessions.get(name, ()):
                    session.cancelled = True
            for order in orders:
                if isinstance(order, messages.AskSlots):
                    self._reporter.send(messages.Slots(order.number, tuple(slot_states(loop)), loop.n_decodes))
                elif isinstance(order, messages.AskLive):
                    state = live_state(loop, time.monotonic() - self._started)
                    self._reporter.send(messages.Live(order.number, state))

        self._engine.call(apply)

    def _tokens(self, request: Request) -> list[int] | None:
        try:
            return prompt_tokens(request, self._engine.vocabulary, self._engine.n_ctx)
        except InvalidRequest as error:
            self._reporter.send(messages.Invalid(request.id, str(error)))
            return None

    def _submit(self, loop: Loop, request: Request, tokens: list[int]) -> None:
        remaining = request.n

        def emit(event: Event) -> None:
            nonlocal remaining
            if isinstance(event, Finish):
                if self._engine.failed is not None:
                    return  # The supervisor knows best who is told what when the engine is gone.
                remaining -= 1
                if not remaining:
                    self._sessions.pop(request.id, None)
                self._reporter.send(Ended(request.id, event))
            else:
                self._reporter.send(Said(request.id, event))

        try:
            self._sessions[request.id] = loop.submit(request, tokens, emit)
        except ForetokenError as error:
            self._reporter.send(messages.Invalid(request.id, str(error)))

    def watch(self) -> None:
        """Return when the engine's thread is gone; the reason is reported."""
        pause = threading.Event()
        while True:
            try:
                self._engine.call(lambda loop: None)
            except EngineStopped as error:
                self._reporter.send(messages.Died(str(error)))
                return
            pause.wait(_PULSE)


def _orders(source: int) -> Iterator[list[Order]]:
    frames = Frames()
    while data := os.read(source, _READ_SIZE):
        if orders := [messages.read_order(frame) for frame in frames.feed(data)]:
            yield orders


def _start(order: Order, reporter: Reporter) -> Engine | None:
    assert isinstance(order, Start)
    root = logging.getLogger("foretoken")
    root.setLevel(order.log_level)
    root.addHandler(reporter)
    root.propagate = False
    try:
        engine = Engine.from_config(order.config)
    except ForetokenError as error:
        reporter.send(messages.Refused(str(error)))
        return None
    reporter.send(messages.Ready(properties_of(engine)))
    return engine


def _serve(service: Service, orders: Iterator[list[Order]]) -> None:
    for burst in orders:
        if any(isinstance(order, Stop) for order in burst):
            return
        with contextlib.suppress(EngineStopped):
            service.obey(burst)


def _watch(service: Service, reporter: Reporter) -> None:
    service.watch()
    reporter.finish()
    os._exit(1)


def main() -> None:
    """Run until told to stop, until the server is gone, or until the engine dies."""
    # Ctrl-C and service managers reach every process there is: the server decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Whatever prints to the standard output must not end up between two reports.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reporter = Reporter(output)
    orders = _orders(sys.stdin.fileno())
    first = next(orders, None)
    engine = _start(first[0], reporter) if first else None
    if engine is not None:
        service = Service(engine, reporter)
        threading.Thread(target=_watch, args=(service, reporter), daemon=True).start()
        _serve(service, orders)
    reporter.finish()
    # Nothing here needs an orderly end, and a step under way would delay it.
    os._exit(1 if engine is None else 0)
