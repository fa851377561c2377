"""What the engine costs beside bare libllama: the loop, taking tokens back, and slots."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from foretoken.config import EngineConfig, ModelConfig, available_cores
from foretoken.engine.assembly import Assembly, assemble, try_memories
from foretoken.engine.loop import Loop
from foretoken.llama.bare import BareLoop
from foretoken.memory.probe import Trial
from foretoken.speculation.speculator import Speculator
from foretoken.types import Request, SamplingParams

SLOTS = (1, 2, 4, 8)
_WARM_UP = 8
_GREEDY = SamplingParams(temperature=0)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Overhead:
    """One token by the loop against one bare decode, interleaved in one run."""

    bare_ms: float
    loop_ms: float
    n_tokens: int

    @property
    def percent(self) -> float:
        return (self.loop_ms / self.bare_ms - 1) * 100


@dataclass(frozen=True, slots=True)
class EngineBench:
    """Everything `foretoken bench engine` found."""

    model: str
    n_threads: int
    overhead: Overhead
    memories: tuple[Trial, ...]
    tokens_per_second: dict[int, float] = field(default_factory=dict)


def measure(path: Path, n_threads: int | None, n_tokens: int, say: Progress) -> EngineBench:
    """Run all three measurements on one model."""
    config = EngineConfig(ModelConfig(path), n_ctx=1024, n_threads=n_threads or available_cores())
    say("overhead of the loop")
    overhead = measure_overhead(config, n_tokens)
    say("taking tokens back")
    with _assembled(config) as assembly:
        name = assembly.model.name
        memories = try_memories(config, assembly.model)
    speeds = {}
    for n in SLOTS:
        say(f"{n} slot{'s' if n > 1 else ''}")
        speeds[n] = measure_slots(replace(config, n_parallel=n), n_tokens)
    return EngineBench(name, config.n_threads, overhead, tuple(memories), speeds)


def measure_overhead(config: EngineConfig, n_tokens: int) -> Overhead:
    """Alternate bare decodes and loop steps, each on a context of its own."""
    with _assembled(config) as bare, _assembled(config) as ours:
        loop = _plain_loop(config, ours)
        loop.submit(_endless(n_tokens + _WARM_UP + 1), [1], lambda event: None)
        loop.step()
        bare_loop = BareLoop(bare.context)
        bare_times: list[float] = []
        loop_times: list[float] = []
        for _ in range(_WARM_UP + n_tokens):
            bare_times.append(_timed(bare_loop.step))
            loop_times.append(_timed(loop.step))
        bare_loop.close()
        loop.abort("measured")
    warm = slice(_WARM_UP, None)
    return Overhead(statistics.median(bare_times[warm]), statistics.median(loop_times[warm]), len(loop_times[warm]))


def measure_slots(config: EngineConfig, n_tokens: int) -> float:
    """Tokens per second of all slots together, decoding plainly."""
    with _assembled(config) as assembly:
        loop = _plain_loop(config, assembly)
        for slot in range(config.n_parallel):
            loop.submit(_endless(n_tokens), [1 + slot] * 8, lambda event: None)
        for _ in range(_WARM_UP):
            loop.step()
        started, done = time.perf_counter(), _emitted(loop)
        while len(loop.scheduler.active) == config.n_parallel:
            loop.step()
            emitted, ended = _emitted(loop), time.perf_counter()
            if len(loop.scheduler.active) == config.n_parallel:
                speed = (emitted - done) / (ended - started)
        return speed


def _emitted(loop: Loop) -> int:
    return sum(slot.session.n_emitted for slot in loop.scheduler.active if slot.session)


def _endless(n_tokens: int) -> Request:
    return Request([1], _GREEDY, max_tokens=n_tokens, ignore_eos=True)


def _plain_loop(config: EngineConfig, assembly: Assembly) -> Loop:
    return Loop(assembly.context, assembly.memory, assembly.model.vocabulary, Speculator(), config)


@contextmanager
def _assembled(config: EngineConfig) -> Iterator[Assembly]:
    assembly = assemble(config)
    try:
        yield assembly
    finally:
        assembly.close()


def _timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return (time.perf_counter() - started) * 1e3
