"""The whole bench on tiny models: it runs, it adds up, and it shows what it found."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import pytest
import typer
from typer.testing import CliRunner

from foretoken import machine
from foretoken.bench import suite, workloads
from foretoken.bench.compare import Result, compare, record, recorded_answers
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED, Alone, OracleContestant, Turn, ours
from foretoken.bench.lanes import side_by_side
from foretoken.bench.oracle import Limit
from foretoken.cli.bench_run import bench_run, tables
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from tests.bench.echo import EchoServer

TinyPath = Callable[..., Path]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "load", lambda: 0.0)


def run_cli(*arguments: str) -> tuple[int, str, str]:
    app = typer.Typer()
    app.command()(bench_run)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_speculated_and_oracle_say_what_plain_says(arch: str, tiny_path: TinyPath) -> None:
    workload = workloads.load("quicksort-trio")
    with Engine.load(tiny_path(arch), n_ctx=512, n_threads=1, n_parallel=4) as engine:
        recording = record(engine, workload, 24, lambda step: None)
        limit, recorded = Limit(engine), recorded_answers([recording])
        with side_by_side(engine, limit, recorded) as lanes:
            in_turns = [Alone(one) for one in (*ours(engine), OracleContestant(engine, limit, recorded))]
            ways: list[list[Turn]] = [[lanes], [*in_turns]]
            for n_slots, way in product((1, 4), ways):
                result = compare(engine, recording, n_slots, 2, [*way, Alone(EchoServer())], lambda step: None)
                assert (result.n_requests, result.n_answers) == (3, 6)
                assert [pace.n_identical for pace in result.paces.values()] == [6, 6, 6, 0]
                assert list(result.paces) == [PLAIN, SPECULATED, LIMIT, "echo"]
                assert all(pace.tokens_per_second > 0 for pace in result.paces.values())
                assert result.paces[PLAIN].ratio.value == 1.0


def test_the_oracle_needs_fewer_steps_and_never_rewinds(tiny_path: TinyPath) -> None:
    with Engine.load(tiny_path("qwen35"), n_ctx=512, n_threads=1) as engine:
        recording = record(engine, workloads.load("quicksort-trio"), 40, lambda step: None)
        recorded = recorded_answers([recording])
        oracle = OracleContestant(engine, Limit(engine), recorded)
        for case in recording.cases:
            (answer,) = oracle.ask([case])
            assert answer.usage is not None
            assert answer.tokens == recorded[case.label]
            assert answer.usage.rewinds == 0
            assert answer.usage.accepted == answer.usage.drafted


def test_what_does_not_fit_is_left_out_and_named(tiny_path: TinyPath) -> None:
    with Engine.load(tiny_path("llama"), n_ctx=256, n_threads=1) as engine:
        recording = record(engine, workloads.load("code-edit"), 8, lambda step: None)
        assert recording.cases == ()
        assert "code-edit/rename" in recording.too_long


def test_the_command(tiny_path: TinyPath, tmp_path: Path) -> None:
    out, chart = tmp_path / "bench.json", tmp_path / "bench.svg"
    code, stdout, _ = run_cli(
        str(tiny_path("qwen35")), "-w", "quicksort-trio", "-w", "shuffled-prose", "--slots", "1,4", "--rounds", "2",
        "-n", "16", "-t", "1", "-c", "1024", "--out", str(out), "--chart", str(chart),
    )  # fmt: skip
    assert code == 0
    assert "quicksort-trio" in stdout
    assert "exact" in stdout
    record = json.loads(out.read_text())
    assert [(entry["workload"], entry["n_slots"]) for entry in record["results"]] == [
        ("quicksort-trio", 1), ("shuffled-prose", 1), ("quicksort-trio", 4), ("shuffled-prose", 4),
    ]  # fmt: skip
    assert record["results"][0]["paces"]["speculated"]["ratio"]["low"] is not None
    assert record["machine"]["library"]
    assert ElementTree.fromstring(chart.read_text()) is not None


def test_json_is_one_object(tiny_path: TinyPath) -> None:
    code, stdout, _ = run_cli(
        "-m", str(tiny_path("llama")), "-w", "quicksort-trio", "--slots", "1", "--rounds", "1", "-n", "4", "-t", "1",
        "-c", "512", "--json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(stdout)["results"][0]["paces"]["limit"]["ratio"]["low"] is None


def test_a_busy_machine_is_refused(tiny_path: TinyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "load", lambda: 1.7)
    code, _, stderr = run_cli(str(tiny_path("llama")), "--slots", "1")
    assert code == 1
    assert "1.7 cores" in stderr


def test_progress_is_counted_right(tiny_path: TinyPath) -> None:
    plan = suite.Plan((workloads.load("quicksort-trio"),), (1, 4), 2, 4)
    told: list[str] = []
    report = suite.run(EngineConfig(ModelConfig(tiny_path("llama")), n_ctx=512, n_threads=1), plan, told.append)
    assert len(told) == plan.n_steps
    assert len(tables(report.results, "t")) == 1
    assert all(isinstance(result, Result) for result in report.results)
