"""Engines that hang, and engine threads that die: noticed, ended and started again like a process that died."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.server.settings import ServerSettings
from foretoken.types import OFF, Request, SamplingParams
from foretoken.worker.loading import Effort, Loading
from foretoken.worker.watch import Watch
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

PLUGIN = """
import pathlib, sys, time

HERE = pathlib.Path(__file__).parent

class Trap:
    '''Does nothing, until it is asked to draft for a sequence with a fatal number of tokens, or finds a fatal file.'''
    name = "trap"

    def __init__(self):
        while (HERE / "sleep").exists():
            time.sleep(0.1)
        while (HERE / "toil").exists():
            sum(range(10_000))

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
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the drafter is installed, as anybody may install one."""
    site = tmp_path_factory.mktemp("site")
    (site / "trap.py").write_text(PLUGIN)
    info = site / "trap-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: trap\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[foretoken.drafters]\ntrap = trap:Trap\n")
    return site


@contextmanager
def trapping(model_path: Path, site: Path) -> Iterator[RunningServer]:
    """A server whose engine can be made to hang or die."""
    before = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{site}{os.pathsep}{before}")
        settings = ServerSettings(grace=1, patience=2.0)
        with running(model_path, settings, speculation=SpeculationConfig(("trap",), plan="fixed")) as server:
            yield server


@pytest.fixture(scope="module")
def trapped(model_path: Path, site: Path) -> Iterator[RunningServer]:
    with trapping(model_path, site) as server:
        yield server


@pytest.fixture
def fresh(model_path: Path, site: Path) -> Iterator[RunningServer]:
    """One whose engine has not died yet: the next is started at once."""
    with trapping(model_path, site) as server:
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
    assert watch.allowed(1, 0) == 64.0
    assert watch.allowed(1000, 1000) > 3600


def test_a_step_may_take_longer_behind_a_long_prompt() -> None:
    """A row of 3 ms: two thousand of them behind forty thousand tokens may take minutes, a single one may not."""
    watch = Watch(SimpleNamespace(call=lambda function: 3.0), None, 60.0)  # type: ignore[arg-type]
    assert watch.allowed(2048, 2048) < 180
    assert watch.allowed(2048, 43_000) > 900
    assert watch.allowed(1, 43_000) < 61


def test_the_engine_tells_how_deep_it_is(model_path: Path) -> None:
    config = EngineConfig(ModelConfig(model_path), n_ctx=256, n_threads=1)
    with Engine.from_config(config, widths_ms={1: 5.0}) as engine:
        engine.complete(Request([65] * 50, SamplingParams(temperature=0), 10, ignore_eos=True, speculation=OFF))
        assert engine.call(lambda loop: (loop.width, loop.depth)) == (1, 59)


def loading_again(server: RunningServer) -> None:
    """Kill the worker and wait until the next one has said its first word."""
    os.kill(server.worker.pid, signal.SIGKILL)
    wait_until(lambda: server.worker.state == "restarting", "the worker's end")
    wait_until(lambda: (process := server.worker._process) is not None and process.heard is not None, "a sign of life")


def test_loading_that_hangs(fresh: RunningServer, site: Path, expected: str) -> None:
    fatal = site / "sleep"
    fatal.touch()
    loading_again(fresh)
    wait_until(lambda: "neither computed nor read anything" in (fresh.worker.reason or ""), "the reason")
    fatal.unlink()
    recovers(fresh, 1, expected)


def test_loading_that_is_stopped(fresh: RunningServer, site: Path, expected: str) -> None:
    """What watches it from inside cannot tell any more."""
    fatal = site / "toil"
    fatal.touch()
    loading_again(fresh)
    os.kill(fresh.worker.pid, signal.SIGSTOP)
    wait_until(lambda: "no sign of life for 2 s" in (fresh.worker.reason or ""), "the reason")
    fatal.unlink()
    recovers(fresh, 1, expected)


class Voice:
    """A reporter that counts."""

    def __init__(self) -> None:
        self.n = 0

    def send(self, _: object) -> None:
        self.n += 1


def look_at_loading(effort: Callable[[int], Effort], n_looks: int, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """What the watch says of a load that ends after so many looks, without any patience for idleness."""
    monkeypatch.setattr("foretoken.worker.loading.PULSE", 0.001)
    monkeypatch.setattr("foretoken.worker.loading._SAY_EVERY", 0.0)
    voice = Voice()

    def look() -> Effort:
        if voice.n > n_looks:
            loading._over.set()
        return effort(voice.n)

    loading = Loading(voice, 0.0, look)  # type: ignore[arg-type]
    return loading.watch()


def test_loading_has_time_as_long_as_it_works(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "foretoken.worker")
    assert look_at_loading(lambda n: Effort(n * 0.5, 0), 50, monkeypatch) is None
    assert "still loading after" in caplog.text
    assert look_at_loading(lambda n: Effort(0.0, n), 50, monkeypatch) is None
    idle = look_at_loading(lambda n: Effort(min(n, 10) * 0.5 + n * 1e-4, min(n, 10)), 50, monkeypatch)
    assert idle is not None
    assert "neither computed nor read" in idle


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
