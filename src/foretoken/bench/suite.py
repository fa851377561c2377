"""The whole run: every workload with one slot and with several, and what is needed to judge it later."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from typing import Any

from foretoken import machine
from foretoken.bench.compare import Progress, Recording, Result, compare, record, recorded_answers, share_of_limit
from foretoken.bench.contestants import Alone, Turn
from foretoken.bench.lanes import side_by_side
from foretoken.bench.oracle import Limit
from foretoken.bench.remote import Server
from foretoken.bench.workloads import Workload
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine


@dataclass(frozen=True, slots=True)
class Plan:
    """What to measure, and how often."""

    workloads: tuple[Workload, ...]
    slots: tuple[int, ...] = (1, 4)
    n_rounds: int = 5
    max_tokens: int | None = None
    against: tuple[tuple[str, str], ...] = ()
    """Addresses of other servers, each with the name it gets in the table."""

    @property
    def n_steps(self) -> int:
        """How often progress is told about."""
        per_slots = [_n_groups(workload, n) for workload in self.workloads for n in self.slots]
        recorded = sum(workload.n_requests for workload in self.workloads)
        return recorded + sum(per_slots) * self.n_rounds * (1 + len(self.against))


@dataclass(frozen=True, slots=True)
class Report:
    """Everything `foretoken bench run` found."""

    settings: dict[int, str]
    """By number of slots, what ran and what it guarantees."""
    widths_ms: dict[int, dict[int, float]]
    results: tuple[Result, ...]
    too_long: tuple[str, ...]
    load: float

    def as_dict(self) -> dict[str, Any]:
        results = [asdict(result) | {"share_of_limit": share_of_limit(result)} for result in self.results]
        return {"machine": machine.describe(), **asdict(self), "results": results}


def run(config: EngineConfig, plan: Plan, say: Progress) -> Report:
    """Measure the plan, one number of slots after the other; all are held against the same recording."""
    load = machine.load()
    recordings: list[Recording] = []
    results: list[Result] = []
    settings: dict[int, str] = {}
    widths: dict[int, dict[int, float]] = {}
    with ExitStack() as stack:
        servers = [Server(url, label) for url, label in plan.against]
        for server in servers:
            stack.callback(server.close)
        for n_slots in plan.slots:
            with Engine.from_config(replace(config, n_parallel=n_slots)) as engine:
                settings[n_slots] = engine.assembly.describe()
                recordings = recordings or [record(engine, work, plan.max_tokens, say) for work in plan.workloads]
                limit = Limit(engine)
                widths[n_slots] = limit.widths_ms
                with side_by_side(engine, limit, recorded_answers(recordings)) as lanes:
                    turns: list[Turn] = [lanes, *map(Alone, servers)]
                    results += [
                        compare(engine, recording, n_slots, plan.n_rounds, turns, say)
                        for recording in recordings
                        if recording.cases
                    ]
    too_long = tuple(label for recording in recordings for label in recording.too_long)
    return Report(settings, widths, tuple(results), too_long, load)


def _n_groups(workload: Workload, n_slots: int) -> int:
    return -(-workload.n_requests // n_slots)
