"""Embeddings inside the worker: batch by batch, so that whoever generates meanwhile waits for one batch at most."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from foretoken.engine.embedder import Embedder
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.errors import EngineStopped
from foretoken.llama.embedding import Vectors
from foretoken.types import Token
from foretoken.worker import messages
from foretoken.worker.messages import PULSE, Cancel, Embed, Order
from foretoken.worker.orders import Orders
from foretoken.worker.reporter import Reporter

Texts = Sequence[Sequence[Token]]
Compute = Callable[[Texts], list[Vectors]]


class EmbeddingLine:
    """First come, first served, by a thread of its own that has somebody compute."""

    def __init__(self, embedder: Embedder, compute: Compute, reporter: Reporter) -> None:
        self._embedder = embedder
        self._compute = compute
        self._reporter = reporter
        self._waiting: queue.SimpleQueue[Embed] = queue.SimpleQueue()
        self._wanted: set[str] = set()
        threading.Thread(target=self._run, name="foretoken-embeddings", daemon=True).start()

    def add(self, order: Embed) -> None:
        self._wanted.add(order.id)
        self._waiting.put(order)

    def cancel(self, name: str) -> None:
        self._wanted.discard(name)

    def _run(self) -> None:
        try:
            while True:
                self._answer(self._waiting.get())
        except EngineStopped:
            return
        except BaseException as error:
            self._reporter.send(messages.Died(f"the engine died: {type(error).__name__}: {error}"))
            self._reporter.finish()
            os._exit(1)

    def _answer(self, order: Embed) -> None:
        for part in self._embedder.batches(order.texts):
            if order.id not in self._wanted:
                return
            found = self._compute([order.texts[number] for number in part])
            self._reporter.send(messages.Embedded(order.id, part.start, tuple(one.tobytes() for one in found)))
        self._wanted.discard(order.id)


def on_engine(engine: Engine, embedder: Embedder) -> Compute:
    """Computes between two steps of an engine: two at once would wait for each other at every barrier."""

    def compute(texts: Texts) -> list[Vectors]:
        def run(loop: Loop) -> list[Vectors]:
            # Whoever watches the engine's thread should know how much it has to do.
            loop.width = sum(len(tokens) for tokens in texts)
            loop.depth = max(len(tokens) for tokens in texts)
            return embedder.embed(texts)

        return engine.call(run)

    return compute


class EncoderService:
    """Obeys orders with a model that only embeds."""

    def __init__(self, embedder: Embedder, reporter: Reporter) -> None:
        self._line = EmbeddingLine(embedder, embedder.embed, reporter)
        self._reporter = reporter
        self._started = time.monotonic()
        threading.Thread(target=self._live, name="foretoken-pulse", daemon=True).start()

    def obey(self, orders: list[Order]) -> None:
        for order in orders:
            match order:
                case Embed():
                    self._line.add(order)
                case Cancel(id=name):
                    self._line.cancel(name)
                case messages.Submit(request=request):
                    self._reporter.send(messages.Invalid(request.id, "this model makes embeddings, not text"))
                case messages.AskSlots(number=number):
                    self._reporter.send(messages.Slots(number, (), 0, 0))
                case messages.AskLive(number=number):
                    state = messages.LiveState(time.monotonic() - self._started, (), 0, {}, {}, {}, {})
                    self._reporter.send(messages.Live(number, state))

    def serve(self, orders: Orders) -> None:
        orders.obey = self.obey
        while orders.take():
            pass

    def finish(self) -> None:
        """There is nothing to keep."""

    def _live(self) -> None:
        pause = threading.Event()
        while True:
            self._reporter.send(messages.Pulse())
            pause.wait(PULSE)
