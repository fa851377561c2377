"""Clients that leave, workers that die, servers that are told to stop."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.errors import EngineStopped
from foretoken.server.settings import ServerSettings
from foretoken.types import Request, SamplingParams
from foretoken.worker.supervisor import Supervisor
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

LONG = {"prompt": "The river runs", "n_predict": 16000, "ignore_eos": True, "stream": True}


@pytest.fixture(scope="module")
def roomy(model_path: Path) -> Iterator[RunningServer]:
    """Room for answers that take seconds."""
    with running(model_path, n_ctx=16384) as server:
        yield server


def test_a_client_that_leaves_a_stream_frees_its_slot(roomy: RunningServer) -> None:
    with httpx.stream("POST", f"{roomy.url}/completion", json=LONG, timeout=TIMEOUT) as answer:
        lines = answer.iter_lines()
        next(lines)
        assert not roomy.idle()
    wait_until(roomy.idle, "the slot to be free", 4)


def test_a_client_that_does_not_wait_for_its_answer_frees_its_slot(roomy: RunningServer) -> None:
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{roomy.url}/completion", json={**LONG, "stream": False}, timeout=0.1)
    wait_until(roomy.idle, "the slot to be free", 4)


def test_clients_that_leave_the_queue_are_forgotten(roomy: RunningServer) -> None:
    def impatient() -> None:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{roomy.url}/completion", json={**LONG, "stream": False}, timeout=0.5)

    with ThreadPoolExecutor(8) as pool:
        leaving = [pool.submit(impatient) for _ in range(8)]
        wait_until(lambda: roomy.worker.n_waiting >= 4, "a queue")
        for one in leaving:
            one.result()
    wait_until(roomy.idle, "the queue to be empty", 4)


def _ask(url: str, number: int) -> dict[str, object]:
    body = {"prompt": f"River {number} runs", "n_predict": 600, "temperature": 0, "ignore_eos": True}
    answer = httpx.post(f"{url}/completion", json=body, timeout=TIMEOUT)
    return {"number": number, "status": answer.status_code, **answer.json()}


def test_an_engine_that_dies_of_its_build_says_what_to_do(model_path: Path) -> None:
    with running(model_path, n_ctx=512) as server:
        os.kill(server.worker.pid, signal.SIGILL)
        wait_until(lambda: server.worker.state == "restarting", "the death to be noticed", 5)
        assert "SIGILL (libllama was built for another processor" in httpx.get(f"{server.url}/health").text
        wait_until(server.healthy, "the recovery", 15)


def test_killing_the_worker_under_load(model_path: Path) -> None:
    """Running requests fail with a reason, waiting ones are answered, and rightly, by the next worker."""
    with running(model_path, n_ctx=1024) as server, ThreadPoolExecutor(12) as pool:
        answers = [pool.submit(_ask, server.url, number) for number in range(12)]
        wait_until(lambda: server.worker.n_waiting >= 6, "a queue")
        killed, before = time.monotonic(), server.worker.pid
        os.kill(before, signal.SIGKILL)
        wait_until(lambda: server.worker.state == "restarting", "the death to be noticed", 5)
        health = httpx.get(f"{server.url}/health")
        assert health.status_code == 503
        assert "SIGKILL" in health.json()["error"]["message"]
        wait_until(server.healthy, "the recovery", 15)
        assert time.monotonic() - killed < 15
        assert server.worker.pid != before
        results = [answer.result() for answer in answers]
    lost = [result for result in results if result["status"] == 503]
    assert 1 <= len(lost) <= 2
    assert all("the engine died" in result["error"]["message"] for result in lost)  # type: ignore[index]
    config = EngineConfig(ModelConfig(model_path), n_ctx=1024, n_threads=1)
    with Engine.from_config(config) as engine:
        for result in results:
            if result in lost:
                continue
            request = Request(f"River {result['number']} runs", SamplingParams(temperature=0), 600, ignore_eos=True)
            assert result["content"] == engine.complete(request)


def test_a_stream_cut_by_a_death_ends_with_an_error_event(model_path: Path) -> None:
    with running(model_path, n_ctx=16384) as server:
        with httpx.stream("POST", f"{server.url}/completion", json=LONG, timeout=TIMEOUT) as answer:
            lines = answer.iter_lines()
            next(lines)
            os.kill(server.worker.pid, signal.SIGKILL)
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert events[-1]["error"]["type"] == "unavailable_error"
        wait_until(server.healthy, "the recovery")
        assert httpx.post(f"{server.url}/completion", json={"prompt": "x", "n_predict": 2}).status_code == 200


MESSAGES = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("path", "fields", "last"),
    [
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 800}, "error"),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 800}, "response.failed"),
    ],
)
def test_every_dialect_has_words_for_a_death(model_path: Path, path: str, fields: dict[str, Any], last: str) -> None:
    with running(model_path, n_ctx=1024) as server:
        body = {**fields, "ignore_eos": True, "stream": True}
        with httpx.stream("POST", server.url + path, json=body, timeout=TIMEOUT) as answer:
            lines = answer.iter_lines()
            next(lines)
            os.kill(server.worker.pid, signal.SIGKILL)
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert events[-1]["type"] == last
        assert "the engine died" in str(events[-1])


def test_embeddings_of_a_dying_worker_are_an_error(model_path: Path) -> None:
    with running(model_path, embeddings=True) as server, ThreadPoolExecutor(1) as pool:
        texts = ["the river runs to the sea " * 30] * 1000
        ask = pool.submit(httpx.post, f"{server.url}/v1/embeddings", json={"input": texts}, timeout=TIMEOUT)
        wait_until(lambda: server.worker.n_embedding > 0, "the request to arrive")
        os.kill(server.worker.pid, signal.SIGKILL)
        assert ask.result().status_code == 503
        wait_until(server.healthy, "the recovery")
        assert httpx.post(f"{server.url}/v1/embeddings", json={"input": "x"}, timeout=TIMEOUT).status_code == 200


def test_a_model_that_cannot_be_loaded_is_one_error(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF" + bytes(100))
    for path in (bad, tmp_path / "missing.gguf"):
        with pytest.raises(EngineStopped, match="cannot load"), running(path):
            pass


def test_draining_lets_the_running_finish_and_sends_the_waiting_away(model_path: Path) -> None:
    with running(model_path, n_parallel=1, n_ctx=1024) as server, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(_ask, server.url, number) for number in range(3)]
        wait_until(lambda: server.worker.n_waiting >= 2, "a queue")
        server.stop()
        results = [answer.result() for answer in answers]
    assert {result["status"] for result in results} == {200, 503}
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{server.url}/health")


def test_answers_that_run_out_of_grace_say_so(model_path: Path) -> None:
    with running(model_path, ServerSettings(grace=0.2), n_ctx=8192) as server:
        body = {**LONG, "n_predict": 8000}
        with httpx.stream("POST", f"{server.url}/completion", json=body, timeout=TIMEOUT) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.on_loop(server.server.stop)  # type: ignore[union-attr]
            events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert events[-1]["error"]["message"] == "the server is stopping"


def test_nobody_is_left_waiting_when_the_grace_is_over(model_path: Path) -> None:
    def ask() -> int:
        return httpx.post(f"{server.url}/completion", json={**LONG, "stream": False}, timeout=TIMEOUT).status_code

    settings = ServerSettings(grace=0.2)
    with running(model_path, settings, n_parallel=1, n_ctx=16384) as server, ThreadPoolExecutor(4) as pool:
        answers = [pool.submit(ask) for _ in range(4)]
        wait_until(lambda: server.worker.n_waiting == 3, "a queue")
        server.on_loop(server.server.stop)  # type: ignore[union-attr]
        assert [answer.result() for answer in answers] == [503] * 4


def test_the_worker_ends_with_the_server(model_path: Path) -> None:
    with running(model_path) as server:
        pid = server.worker.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_worker_that_never_starts_again_is_given_up(model_path: Path, tmp_path: Path) -> None:
    moving = tmp_path / "model.gguf"
    moving.write_bytes(model_path.read_bytes())
    server = RunningServer(EngineConfig(ModelConfig(moving), n_ctx=256, n_threads=1), ServerSettings(grace=1))
    server.start()
    moving.unlink()
    os.kill(server.worker.pid, signal.SIGKILL)
    wait_until(lambda: server.error is not None, "the server to give up", 60)
    assert "no such file" in str(server.error)
    server.stop()


def test_supervisor_answers_in_an_event_loop(model_path: Path) -> None:
    import asyncio

    async def ask() -> list[str]:
        worker = Supervisor(EngineConfig(ModelConfig(model_path), n_ctx=256, n_threads=1))
        await worker.start()
        try:
            request = Request([65, 66], SamplingParams(temperature=0), max_tokens=5)
            return [type(event).__name__ async for event in worker.generate(request)]
        finally:
            await worker.close()

    assert asyncio.run(ask())[-1] == "Finish"
