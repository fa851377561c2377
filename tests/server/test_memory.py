"""A worker that has answered and cancelled for long holds no more than one that has for a short while."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.types import Request, SamplingParams
from foretoken.worker import messages
from foretoken.worker.messages import Cancel, Frames, Submit
from foretoken.worker.reporter import Reporter
from foretoken.worker.service import Service

N_REQUESTS = 60
N_ROUNDS = 6
WARM = 2
"""Rounds after which every pool that may be filled is."""


class Listener:
    """Reads a worker's reports and counts the ends; keeps nothing else."""

    def __init__(self, source: int) -> None:
        self._source = source
        self.ended = threading.Semaphore(0)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        frames = Frames()
        while data := os.read(self._source, 1 << 16):
            for frame in frames.feed(data):
                if isinstance(messages.read_report(frame), messages.Ended):
                    self.ended.release()


@contextmanager
def worker(path: Path) -> Iterator[tuple[Service, Engine, Listener]]:
    """What runs in the worker process, in this one."""
    source, sink = os.pipe()
    reporter = Reporter(sink)
    config = EngineConfig(ModelConfig(path), n_parallel=4, n_ctx=256, n_threads=1)
    with Engine.from_config(config, reporter.flush, widths_ms={1: 0.2, 8: 0.5, 64: 3.0}) as engine:
        yield Service(engine, reporter), engine, Listener(source)


def answer_and_cancel(service: Service, engine: Engine, listener: Listener) -> int:
    """One round, the same every time; returns how many objects there are when it is over."""
    for number in range(N_REQUESTS):
        tokens = tuple(engine.tokenize(f"The river {'runs and runs ' * (number % 3)}number {number % 12}"))
        sampling = SamplingParams(temperature=0.9 if number % 5 == 0 else 0, seed=number)
        request = Request(prompt=tokens, sampling=sampling, max_tokens=24, owner=f"key {number % 2}")
        service.obey([Submit.of(request)])
        if number % 2:
            service.obey([Cancel(request.id)])
    for _ in range(N_REQUESTS):
        assert listener.ended.acquire(timeout=60)
    engine.call(lambda loop: None)
    gc.collect()
    return len(gc.get_objects())


def test_nothing_of_an_answer_stays_behind(model_path: Path) -> None:
    with worker(model_path) as parts:
        counts = [answer_and_cancel(*parts) for _ in range(N_ROUNDS)]
        service = parts[0]
        assert not service._sessions
        assert not service._coming
    # A leak of one object per request would be so many in every round.
    grown = max(counts[WARM:]) - counts[WARM]
    assert grown < N_REQUESTS, f"objects after each round: {counts}"
