"""What HTTP costs above the engine: the same question to both, one after the other, many times."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace

from foretoken.bench.serving import Ours
from foretoken.bench.statistics import Difference, difference
from foretoken.bench.wire import Connection, Heard, body
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.types import Chunk, Finish, Request, SamplingParams

PROMPT = "def add(a, b):\n"
_WARM_UP = 3
_PAUSE = 0.02
"""Seconds between two questions: threads of one engine spin a while after their last step."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Milliseconds in the same process and over HTTP."""

    n_rounds: int
    n_tokens: int
    first: Difference
    per_token: Difference


def measure(config: EngineConfig, n_rounds: int, n_tokens: int, say: Progress) -> Overhead:
    """Ask an engine here and a server with its like in turns; speculation is off, so that a token is a token."""
    config = replace(config, n_parallel=1, speculation=replace(config.speculation, drafters=()))
    request = Request(PROMPT, SamplingParams(temperature=0), max_tokens=n_tokens, ignore_eos=True, cache_prompt=False)
    asked = body(PROMPT, n_tokens)
    inside: list[Heard] = []
    outside: list[Heard] = []
    say("starting the server")
    with (
        Ours(config).started() as address,
        Engine.from_config(config) as engine,
        closing(Connection(address)) as connection,
    ):
        for number in range(_WARM_UP + n_rounds):
            say(f"latency, round {number}")
            time.sleep(_PAUSE)
            inside.append(_ask(engine, request))
            time.sleep(_PAUSE)
            outside.append(connection.ask(asked))
    pairs = list(zip(inside, outside, strict=True))[_WARM_UP:]
    return Overhead(
        n_rounds,
        n_tokens,
        difference([(ours.first * 1e3, theirs.first * 1e3) for ours, theirs in pairs]),
        difference([(ours.per_token * 1e3, theirs.per_token * 1e3) for ours, theirs in pairs]),
    )


def _ask(engine: Engine, request: Request) -> Heard:
    started = time.perf_counter()
    first, n = None, 0
    for event in engine.generate(request):
        if isinstance(event, Chunk):
            n += len(event.tokens)
            if first is None and event.text:
                first = time.perf_counter() - started
        elif isinstance(event, Finish) and event.reason == "error":
            raise ForetokenError(event.error or "the engine failed")
    return Heard(first or 0.0, time.perf_counter() - started, n)
