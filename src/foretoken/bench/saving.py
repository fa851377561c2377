"""What keeping states costs an answer that is being made meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from foretoken.bench.statistics import Ratio, Sample, ratio, speed
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine
from foretoken.types import OFF, Finish, Request, SamplingParams

_N_ANSWER = 192
_N_PROMPT = 400
_GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True, slots=True)
class Saving:
    """Tokens per second of an answer beside prompts whose states are not kept, and are."""

    plain: float
    keeping: float
    ratio: Ratio
    copy_share: float
    """Of the engine's time while states were kept."""


def measure(config: EngineConfig, n_rounds: int, say: Callable[[str], None]) -> Saving:
    """Rounds of both, one after the other; no prompt comes twice, so that keeping it is all that differs."""
    paces: dict[bool, list[Sample]] = {False: [], True: []}
    copied = stepped = 0.0
    with Engine.from_config(replace(config, n_parallel=max(2, config.n_parallel))) as engine:
        seed = 0
        for number in range(n_rounds):
            for keep in (False, True) if number % 2 else (True, False):
                say("states kept" if keep else "nothing kept")
                before = engine.call(_times)
                pace, seed = _pace(engine, keep, seed)
                after = engine.call(_times)
                paces[keep].append(pace)
                if keep:
                    copied, stepped = copied + after[0] - before[0], stepped + after[1] - before[1]
    plain, keeping = [paces[False]], [paces[True]]
    return Saving(speed(plain), speed(keeping), ratio(plain, keeping), copied / max(1e-9, stepped))


def _times(loop: object) -> tuple[float, float]:
    return loop.cache.thrift.copied_ms, loop.totals.step_ms  # type: ignore[attr-defined]


def _pace(engine: Engine, keep: bool, seed: int) -> tuple[Sample, int]:
    """The pace of one answer while other prompts are read without pause."""
    ended = threading.Event()
    n_asked = 0

    def crowd() -> None:
        nonlocal n_asked
        while not ended.is_set():
            n_asked += 1
            engine.complete(_prompt(engine, seed + n_asked, keep))

    with ThreadPoolExecutor(1) as threads:
        others = threads.submit(crowd)
        request = Request(
            [1 + seed % 7] * 4, _GREEDY, max_tokens=_N_ANSWER, ignore_eos=True, cache_prompt=False, speculation=OFF
        )
        try:
            ms = [event.usage.generation_ms for event in engine.generate(request) if isinstance(event, Finish)]
        finally:
            ended.set()
        others.result()
    return Sample(_N_ANSWER, ms[0]), seed + n_asked


def _prompt(engine: Engine, seed: int, keep: bool) -> Request:
    """A prompt that nobody has sent before, of four messages."""
    end = min(engine.vocabulary.end_tokens)
    n_tokens = min(4000, engine.vocabulary.n_tokens)
    usual = [token for token in range(n_tokens // 4, n_tokens) if token not in engine.vocabulary.end_tokens]
    tokens = [usual[(seed * 7919 + i * 31) % len(usual)] for i in range(_N_PROMPT)]
    tokens[99::100] = [end] * len(tokens[99::100])
    tokens[-1] = usual[seed % len(usual)]
    return Request(tokens, _GREEDY, max_tokens=1, cache_prompt=keep, speculation=OFF)
