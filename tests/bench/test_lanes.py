"""Lanes: who steps next, whose time is counted, and what is left when one of them fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from foretoken.bench import lanes, workloads
from foretoken.bench.compare import Recording, record, recorded_answers
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED
from foretoken.bench.lanes import SideBySide, due, side_by_side
from foretoken.bench.oracle import Limit
from foretoken.bench.statistics import sample
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.llama.context import Context
from foretoken.types import Request

TinyPath = Callable[..., Path]


@dataclass(frozen=True)
class Runner:
    n_tokens: int
    seconds: float


@pytest.fixture(scope="module")
def engine(tiny_path: TinyPath) -> Iterator[Engine]:
    with Engine.load(tiny_path("qwen35"), n_ctx=512, n_threads=1, n_parallel=4) as engine:
        yield engine


@pytest.fixture(scope="module")
def recording(engine: Engine) -> Recording:
    return record(engine, workloads.load("quicksort-trio"), 24, lambda step: None)


@pytest.fixture
def together(engine: Engine, recording: Recording) -> Iterator[SideBySide]:
    with side_by_side(engine, Limit(engine), recorded_answers([recording])) as together:
        yield together


def test_whoever_has_said_least_is_due() -> None:
    ahead, behind = Runner(5, 0.1), Runner(4, 9.0)
    assert due([ahead, behind]) is behind


def test_of_equals_the_one_with_less_time_is_due_and_then_the_first() -> None:
    slow, fast, same = Runner(4, 2.0), Runner(4, 1.0), Runner(4, 1.0)
    assert due([slow, fast, same]) is fast
    assert due([slow, same, fast]) is same


@pytest.mark.parametrize("n_cases", [1, 3])
def test_all_lanes_say_what_was_recorded(together: SideBySide, recording: Recording, n_cases: int) -> None:
    found = together.ask(recording.cases[:n_cases])
    assert list(found) == [PLAIN, SPECULATED, LIMIT]
    for answers in found.values():
        assert [answer.tokens for answer in answers] == list(recording.answers[:n_cases])
    drafted = {label: sum(one.usage.drafted for one in answers if one.usage) for label, answers in found.items()}
    assert drafted[PLAIN] == 0
    assert drafted[LIMIT] > 0


def test_every_way_has_every_context_in_turn(engine: Engine, recording: Recording) -> None:
    own = engine.call(lambda loop: loop.speculator)
    limit = Limit(engine)
    places: dict[str, list[int]] = {PLAIN: [], SPECULATED: [], LIMIT: []}
    with side_by_side(engine, limit, recorded_answers([recording])) as together:
        for _ in range(9):
            found = together.ask(recording.cases[:1])
            assert found[SPECULATED][0].tokens == recording.answers[0]
            assert together.loops[SPECULATED].speculator is own
            assert together.loops[LIMIT].speculator is limit.speculator
            for label, loop in together.loops.items():
                places[label].append(id(loop))
    assert all(len(set(where)) == 3 for where in places.values())
    assert all(len(set(at_once)) == 3 for at_once in zip(*places.values(), strict=True))
    assert engine.call(lambda loop: loop.speculator) is own, "the engine has its own again"


def test_lanes_stay_beside_each_other(
    together: SideBySide, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepped: list[lanes.Lane] = []

    def noting(left: list[lanes.Lane]) -> lanes.Lane:
        chosen = due(left)
        stepped.append(chosen)
        assert chosen.n_tokens == min(lane.n_tokens for lane in left)
        return chosen

    monkeypatch.setattr(lanes, "due", noting)
    together.ask(recording.cases[:1])
    assert len({id(lane) for lane in stepped[:3]}) == 3, "all begin with the prompt"


def test_a_case_is_in_the_same_slot_in_every_lane(engine: Engine, together: SideBySide, recording: Recording) -> None:
    case = recording.cases[0]
    engine.complete(Request(case.prompt, case.sampling, max_tokens=1, owner="somebody before"))
    for _ in range(2):
        together.ask(recording.cases)
        owners = [[slot.owner for slot in loop.scheduler.slots[:3]] for loop in together.loops.values()]
        assert owners[0] == owners[1] == owners[2]
        assert len(set(owners[0])) == 3


def test_a_clock_runs_in_the_steps_of_its_lane_only(
    together: SideBySide, recording: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: dict[Loop, list[float]] = {}
    original = Loop.step

    def timed(loop: Loop) -> bool:
        started = time.perf_counter()
        stepped = original(loop)
        steps.setdefault(loop, []).append(time.perf_counter() - started)
        return stepped

    monkeypatch.setattr(Loop, "step", timed)
    started = time.perf_counter()
    found = together.ask(recording.cases[:1])
    wall = (time.perf_counter() - started) * 1e3
    own = sorted(sum(times) * 1e3 for times in steps.values())
    told = sorted(answers[0].generation_ms for answers in found.values())
    assert len(own) == len(told) == 3
    assert all(0 < ms <= limit for ms, limit in zip(told, own, strict=True))
    assert sum(told) <= sum(own) <= wall
    assert sample(found[PLAIN]).ms == found[PLAIN][0].generation_ms


def test_one_that_fails_ends_all(engine: Engine, recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Context] = []
    original, step = Context.close, Loop.step

    def noting(context: Context) -> None:
        closed.append(context)
        original(context)

    monkeypatch.setattr(Context, "close", noting)

    def failing(loop: Loop) -> bool:
        if loop.speculator is limit.speculator and loop.n_decodes == 1:
            raise ZeroDivisionError("on purpose")
        return step(loop)

    limit = Limit(engine)
    monkeypatch.setattr(Loop, "step", failing)

    def ask() -> None:
        with side_by_side(engine, limit, recorded_answers([recording])) as together:
            together.ask(recording.cases)

    with pytest.raises(ZeroDivisionError, match="on purpose"):
        ask()
    assert len(closed) == 2
    assert engine.call(lambda loop: loop.idle), "the engine's own lane has stopped too"
    case, tokens = recording.cases[0], recording.answers[0]
    assert engine.complete(Request(case.prompt, case.sampling, case.max_tokens)) == engine.detokenize(list(tokens))
