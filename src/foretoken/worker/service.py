"""The worker process itself: takes orders from its input, runs the engine, reports on its output."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from foretoken.engine.embedder import Embedder
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.engine.session import Session
from foretoken.engine.slot_files import SlotBusy, erase_slot, restore_slot, save_slot
from foretoken.errors import EncoderOnly, EngineStopped, ForetokenError, InvalidRequest
from foretoken.grammar.grammar import Grammar
from foretoken.llama.model import Model
from foretoken.types import Event, Finish, Request
from foretoken.worker import messages
from foretoken.worker.embedding import EmbeddingLine, EncoderService, on_engine
from foretoken.worker.live import live_state, slot_states
from foretoken.worker.loading import Loading
from foretoken.worker.messages import (
    Cancel,
    Embed,
    Ended,
    Order,
    Said,
    Start,
    Submit,
)
from foretoken.worker.orders import Orders
from foretoken.worker.properties import encoder_properties, properties_of
from foretoken.worker.reporter import Reporter
from foretoken.worker.watch import Watch

log = logging.getLogger("foretoken.worker")

_FLUSH_SECONDS = 3.0
_COMPILERS = 2


class Service:
    """Obeys orders with one engine."""

    def __init__(self, engine: Engine, reporter: Reporter, embedder: Embedder | None = None) -> None:
        self._engine = engine
        self._embeddings = EmbeddingLine(embedder, on_engine(engine, embedder), reporter) if embedder else None
        self._reporter = reporter
        self._sessions: dict[str, list[Session]] = {}
        self._started = time.monotonic()
        self._coming: dict[str, bool] = {}
        """Requests whose grammar is being compiled, and whether they were cancelled meanwhile."""
        self._compiling = ThreadPoolExecutor(_COMPILERS, thread_name_prefix="foretoken-grammar")

    def obey(self, orders: list[Order]) -> None:
        """Hand a burst of orders to the engine in one go: all of them count for its next step."""
        ready: list[tuple[Request, float, list[int], Grammar | None]] = []
        for order in orders:
            if not isinstance(order, Submit):
                continue
            request = order.request
            if request.constraint is not None:
                # May take seconds: nobody else waits for it.
                self._coming[request.id] = False
                self._compiling.submit(self._compile, request, order.waited)
            elif found := self._prepared(request):
                ready.append((request, order.waited, *found))
        cancelled = [order.id for order in orders if isinstance(order, Cancel)]
        self._embed(orders)

        def apply(loop: Loop) -> None:
            for one in ready:
                self._submit(loop, *one)
            for name in cancelled:
                self._cancel(name)
            for order in orders:
                if isinstance(order, messages.AskSlots):
                    states = tuple(slot_states(loop))
                    self._reporter.send(
                        messages.Slots(order.number, states, loop.n_decodes, loop.totals.slots, loop.cache.counters())
                    )
                elif isinstance(order, messages.AskLive):
                    state = live_state(loop, time.monotonic() - self._started)
                    self._reporter.send(messages.Live(order.number, state))

        # Whoever waited here would wake up just when the engine's thread wants to compute.
        with contextlib.suppress(EngineStopped):
            self._engine.tell(apply)
        for order in orders:
            if isinstance(order, messages.SlotOrder):
                # Files may be large and disks slow: nobody else waits for them.
                threading.Thread(target=self._act_on_slot, args=(order,), daemon=True).start()

    def _act_on_slot(self, order: messages.SlotOrder) -> None:
        started = time.perf_counter()
        actions = {"save": save_slot, "restore": restore_slot, "erase": erase_slot}
        try:
            n_tokens, n_bytes = actions[order.action](self._engine, order.slot, order.owner, order.path)
        except SlotBusy as error:
            self._reporter.send(messages.SlotDone(order.number, error=str(error), busy=True))
        except (ForetokenError, OSError) as error:
            self._reporter.send(messages.SlotDone(order.number, error=str(error)))
        else:
            ms = (time.perf_counter() - started) * 1e3
            self._reporter.send(messages.SlotDone(order.number, n_tokens, n_bytes, ms))

    def _embed(self, orders: list[Order]) -> None:
        if self._embeddings is None:
            return
        for order in orders:
            if isinstance(order, Embed):
                self._embeddings.add(order)
            elif isinstance(order, Cancel):
                self._embeddings.cancel(order.id)

    def serve(self, orders: Orders) -> None:
        """The engine's own thread listens: it need not be woken up by one that does."""
        orders.obey = self.obey
        self._engine.attend(orders)
        orders.over.wait()

    def finish(self) -> None:
        """Let what is being kept arrive where it is kept."""
        self._engine.flush(_FLUSH_SECONDS)

    def _compile(self, request: Request, waited: float) -> None:
        try:
            found = self._prepared(request)
        except BaseException:
            log.exception("a grammar could not be compiled")
            self._reporter.send(messages.Invalid(request.id, "the grammar cannot be compiled; the log says why"))
            found = None

        def arrive(loop: Loop) -> None:
            cancelled = self._coming.pop(request.id)
            if found is not None:
                self._submit(loop, request, waited, *found)
            if cancelled:
                self._cancel(request.id)

        with contextlib.suppress(EngineStopped):
            self._engine.call(arrive)

    def _prepared(self, request: Request) -> tuple[list[int], Grammar | None] | None:
        try:
            return self._engine.prepare(request)
        except InvalidRequest as error:
            self._reporter.send(messages.Invalid(request.id, str(error)))
            return None

    def _cancel(self, name: str) -> None:
        if name in self._coming:
            self._coming[name] = True
        for session in self._sessions.get(name, ()):
            session.cancelled = True

    def _submit(self, loop: Loop, request: Request, waited: float, tokens: list[int], grammar: Grammar | None) -> None:
        remaining = request.n
        first = True

        def emit(event: Event) -> None:
            nonlocal remaining, first
            if isinstance(event, Finish):
                if self._engine.failed is not None:
                    return  # The supervisor knows best who is told what when the engine is gone.
                remaining -= 1
                if not remaining:
                    self._sessions.pop(request.id, None)
                self._reporter.gather(Ended(request.id, event))
            else:
                # Among others a server has more to do than this, and the engine would wait for all of it.
                self._reporter.gather(Said(request.id, event), awaited=first and len(self._sessions) == 1)
                first = False

        try:
            self._sessions[request.id] = loop.submit(request, tokens, emit, grammar, waited)
        except ForetokenError as error:
            self._reporter.send(messages.Invalid(request.id, str(error)))


class Obeying(Protocol):
    """Whatever does as it is told."""

    def serve(self, orders: Orders) -> None:
        """Take in orders until they are over."""
        ...

    def finish(self) -> None:
        """Do what must be done before the end."""
        ...


def _start(order: Order, reporter: Reporter) -> Obeying | None:
    assert isinstance(order, Start)
    root = logging.getLogger("foretoken")
    root.setLevel(order.log_level)
    root.addHandler(reporter)
    root.propagate = False
    try:
        with Loading(reporter, order.patience):
            return _load(order, reporter)
    except ForetokenError as error:
        reporter.send(messages.Refused(str(error)))
        return None


def _load(order: Start, reporter: Reporter) -> Obeying:
    try:
        return _start_engine(order, reporter)
    except EncoderOnly:
        return _start_encoder(order, reporter)


def _start_engine(order: Start, reporter: Reporter) -> Obeying:
    engine = Engine.from_config(order.config, reporter.flush, order.widths_ms)
    embedder = Embedder(engine.assembly.model, order.config) if order.config.embeddings else None
    # Now, while nobody waits for a token.
    engine.compiler.make_ready()
    watch = Watch(engine, reporter, order.patience)
    widths_ms = engine.call(lambda loop: dict(loop.speculator.planner.outlook().curve))
    reporter.send(messages.Ready(properties_of(engine, embedder), widths_ms))
    threading.Thread(target=watch.run, name="foretoken-watch", daemon=True).start()
    return Service(engine, reporter, embedder)


def _start_encoder(order: Start, reporter: Reporter) -> Obeying:
    embedder = Embedder(Model(order.config.model), order.config)
    log.info("%s", embedder.describe())
    reporter.send(messages.Ready(encoder_properties(embedder), {}))
    return EncoderService(embedder, reporter)


def main() -> None:
    """Run until told to stop, until the server is gone, or until the engine dies."""
    # Ctrl-C and service managers reach every process there is: the server decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # Whatever prints to the standard output must not end up between two reports.
    output = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    reporter = Reporter(output)
    orders = Orders(sys.stdin.fileno())
    first = orders.first()
    service = _start(first, reporter) if first else None
    if service is not None:
        # What was loaded stays: looking through all of it for garbage took 17 ms between two steps.
        gc.freeze()
        service.serve(orders)
        service.finish()
    reporter.finish()
    # Nothing here needs an orderly end, and a step under way would delay it.
    os._exit(1 if service is None else 0)
