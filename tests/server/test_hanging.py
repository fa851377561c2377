"""Engines that hang, and engine threads that die: noticed, ended and started again like a process that died."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.server.settings import ServerSettings
from foretoken.types import OFF, Request, SamplingParams
from foretoken.worker.watch import Watch
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

PLUGIN = """
import sys, time

class Trap:
    '''Does nothing, until it is asked to draft for a sequence with a fatal number of tokens.'''
    name = "trap"

    def begin(self, seq, prompt, owner):
        if len(prompt) == 7:
            time.sleep(1000)
        if len(prompt) == 5:
            sys.exit("out of the engine's thread")

    def draft(self, asks):
        from foretoken.speculation.base import NO_DRAFT
        return [NO_DRAFT for _ in asks]

    def accept(self, seq, verdict): ...
    def end(self, seq): ...
"""
BODY = {"prompt": [65] * 3, "n_predict": 4, "temperature": 0}


@pytest.fixture(scope="module")
def trapped(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose engine can be made to hang or die, through a drafter as anybody may install one."""
    site = tmp_path_factory.mktemp("site")
    (site / "trap.py").write_text(PLUGIN)
    info = site / "trap-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[foretoken.drafters]\ntrap = trap:Trap\n")
    before = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{before}")
        settings = ServerSettings(grace=1, patience=2.0)
        with running(model_path, settings, speculation=SpeculationConfig(("trap",), plan="fixed")) as server:
            yield server


def recovers(server: RunningServer, n_restarts: int, expected: str) -> None:
    wait_until(lambda: server.worker.n_restarts > n_restarts and server.healthy(), "the next engine")
    assert httpx.post(f"{server.url}/completion", json=BODY, timeout=TIMEOUT).json()["content"] == expected


@pytest.fixture(scope="module")
def expected(trapped: RunningServer) -> str:
    content: str = httpx.post(f"{trapped.url}/completion", json=BODY, timeout=TIMEOUT).json()["content"]
    return content


def test_a_step_without_end(trapped: RunningServer, expected: str) -> None:
    n = trapped.worker.n_restarts
    answer = httpx.post(f"{trapped.url}/completion", json={**BODY, "prompt": [65] * 7}, timeout=TIMEOUT)
    assert answer.status_code == 503
    assert "the engine hangs: a step of" in answer.json()["error"]["message"]
    recovers(trapped, n, expected)


def test_who_looks_at_a_hanging_engine_does_not_hang(trapped: RunningServer, expected: str) -> None:
    n = trapped.worker.n_restarts
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{trapped.url}/completion", json={**BODY, "prompt": [65] * 7}, timeout=0.3)
    for path in ("/health", "/slots", "/metrics", "/props"):
        assert httpx.get(f"{trapped.url}{path}", timeout=TIMEOUT).status_code in (200, 503)
    recovers(trapped, n, expected)


def test_an_engine_thread_that_dies(trapped: RunningServer, expected: str) -> None:
    n = trapped.worker.n_restarts
    answer = httpx.post(f"{trapped.url}/completion", json={**BODY, "prompt": [65] * 5}, timeout=TIMEOUT)
    assert answer.status_code == 503
    assert "out of the engine's thread" in answer.json()["error"]["message"]
    recovers(trapped, n, expected)


def test_a_process_that_gives_no_sign_of_life(trapped: RunningServer, expected: str) -> None:
    n = trapped.worker.n_restarts
    os.kill(trapped.worker.pid, signal.SIGSTOP)
    answer = httpx.post(f"{trapped.url}/completion", json=BODY, timeout=TIMEOUT)
    assert answer.status_code == 503
    assert "no sign of life for 2 s" in answer.json()["error"]["message"]
    recovers(trapped, n, expected)


def test_an_idle_engine_and_long_answers_are_not_taken_for_hung(trapped: RunningServer) -> None:
    n = trapped.worker.n_restarts
    body = {**BODY, "n_predict": 400, "ignore_eos": True}
    for _ in range(8):
        httpx.post(f"{trapped.url}/completion", json=body, timeout=TIMEOUT).raise_for_status()
    assert trapped.worker.n_restarts == n


def test_large_steps_of_slow_models_have_time() -> None:
    """A row that takes a second alone gives a batch of a thousand an hour."""
    slow = SimpleNamespace(call=lambda function: 1000.0)
    watch = Watch(slow, None, 60.0)  # type: ignore[arg-type]
    assert watch.allowed(1) == 64.0
    assert watch.allowed(1000) > 3600


def test_the_next_engine_knows_what_the_first_measured(model_path: Path) -> None:
    with running(model_path, n_ctx=256) as server:
        known = dict(server.worker._widths_ms)
        assert known[1] > 0
        os.kill(server.worker.pid, signal.SIGKILL)
        wait_until(lambda: server.worker.n_restarts == 1 and server.healthy(), "the next engine")
        assert server.worker._widths_ms == known


def test_an_engine_takes_over_a_calibration(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(*_: object) -> dict[int, float]:
        raise AssertionError("measured again")

    monkeypatch.setattr("foretoken.engine.calibration.measure", measure)
    config = EngineConfig(ModelConfig(model_path), n_ctx=256, n_threads=1)
    with Engine.from_config(config, widths_ms={1: 5.0, 2: 6.0}) as engine:
        assert engine.call(lambda loop: dict(loop.speculator.planner.outlook().curve)) == {1: 5.0, 2: 6.0}
        assert engine.complete(Request("x", SamplingParams(temperature=0), 4, speculation=OFF))
