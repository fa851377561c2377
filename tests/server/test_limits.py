"""Keys, queues and sizes."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from foretoken.errors import ConfigError
from foretoken.server import bodies
from foretoken.server.auth import Keys, read_keys
from foretoken.server.limits import Pace
from foretoken.server.settings import ServerSettings
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

LONG = {"prompt": "The river runs", "n_predict": 4000, "ignore_eos": True, "stream": True}
ROOM = {"n_ctx": 4096}


@pytest.fixture(scope="module")
def strict(model_path: Path) -> Iterator[RunningServer]:
    settings = ServerSettings(
        api_keys=("alpha", "beta"), max_body=2000, max_prompt=20, max_streams=1, grace=2, alias="tiny",
        cors_origins=("http://page.example",), time_limit=20,
    )  # fmt: skip
    with running(model_path, settings, **ROOM) as server:
        yield server


def ask(server: RunningServer, key: str | None = "alpha", **fields: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    body = {"prompt": "x", "n_predict": 2, **fields}
    return httpx.post(f"{server.url}/completion", json=body, headers=headers, timeout=TIMEOUT)


def test_a_body_that_does_not_come_is_given_up(strict: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "_BODY_SECONDS", 0.2)
    where = httpx.URL(strict.url)
    with socket.create_connection((where.host, where.port or 80), timeout=TIMEOUT) as connection:
        head = b"POST /completion HTTP/1.1\r\nhost: x\r\nauthorization: Bearer alpha\r\ncontent-length: 20\r\n\r\n{"
        connection.sendall(head)
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 408")
    assert ask(strict).status_code == 200


def test_keys(strict: RunningServer) -> None:
    assert ask(strict).status_code == 200
    assert ask(strict, "beta").status_code == 200
    for wrong in (None, "alph", "alphaa", "", "Beta"):
        answer = ask(strict, wrong)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
    headers = {"x-api-key": "beta"}
    assert httpx.post(f"{strict.url}/completion", json={"prompt": "x", "n_predict": 1}, headers=headers).is_success
    assert httpx.get(f"{strict.url}/health").status_code == 200
    assert httpx.get(f"{strict.url}/metrics").status_code == 401
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{strict.url}/v1", api_key="no").completions.create(model="m", prompt="x")


def test_owners_differ_by_key_and_never_are_the_key() -> None:
    keys = Keys(["alpha", "beta"])
    owners = [keys.owner({"authorization": f"bearer {key}"}) for key in ("alpha", "beta", "gamma")]
    assert owners[0] != owners[1]
    assert owners[2] is None
    assert "alpha" not in (owners[0] or "")
    assert Keys([]).owner({}) == ""


def test_what_one_key_left_in_memory_serves_no_other(strict: RunningServer) -> None:
    def cached(key: str, first: int) -> int:
        """How much of a conversation's first turn is still there for its second."""
        turn = [first, 66, 67, 68]
        answer = ask(strict, "alpha", prompt=turn, n_predict=2, return_tokens=True, ignore_eos=True).json()
        again = ask(strict, key, prompt=[*turn, *answer["tokens"], 70], n_predict=1).json()
        n: int = again["timings"]["cache_n"]
        return n

    assert cached("alpha", 90) >= 4
    assert cached("beta", 91) == 0


def test_key_files(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\none\n\n two \n")
    assert read_keys(["three, four", "one"], file) == ("three", "four", "one", "two")
    file.write_text("# nobody\n")
    with pytest.raises(ConfigError, match="no API key"):
        read_keys([], file)
    with pytest.raises(ConfigError, match="cannot read"):
        read_keys([], tmp_path / "missing")


def test_a_body_that_is_too_large(strict: RunningServer) -> None:
    assert ask(strict, prompt="x" * 3000).status_code == 413
    headers = {"authorization": "Bearer alpha"}
    pieces = iter([b"x" * 1000] * 5)
    assert httpx.post(f"{strict.url}/completion", content=pieces, headers=headers).status_code == 413


def test_a_prompt_with_too_many_tokens(strict: RunningServer) -> None:
    answer = ask(strict, prompt=[65] * 21)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "exceed_context_size_error"


def test_streams_of_one_key(strict: RunningServer) -> None:
    headers = {"authorization": "Bearer alpha"}
    with httpx.stream("POST", f"{strict.url}/completion", json=LONG, headers=headers, timeout=TIMEOUT) as answer:
        lines = answer.iter_lines()
        next(lines)
        refused = ask(strict)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert ask(strict, "beta").status_code == 200
    wait_until(lambda: ask(strict).status_code == 200, "the key to be free again", 5)


def test_alias_and_cors(strict: RunningServer) -> None:
    answer = httpx.get(f"{strict.url}/v1/models", headers={"origin": "http://page.example"})
    assert answer.json()["data"][0]["id"] == "tiny"
    assert answer.headers["access-control-allow-origin"] == "http://page.example"


def test_a_full_queue_says_when_to_come_back(model_path: Path) -> None:
    with running(model_path, n_parallel=1, max_queue=2, **ROOM) as server:
        threads = [threading.Thread(target=_hold, args=(server.url, 0.8)) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: server.worker.n_waiting >= 3, "the queue to be full")
        answer = httpx.post(f"{server.url}/v1/completions", json={"prompt": "x"}, timeout=TIMEOUT)
        assert answer.status_code == 429
        assert answer.json()["error"]["type"] == "rate_limit_error"
        assert int(answer.headers["retry-after"]) >= 1
        for thread in threads:
            thread.join()
        wait_until(server.idle, "the queue to be empty")
        assert httpx.post(f"{server.url}/v1/completions", json={"prompt": "x", "max_tokens": 1}).is_success


def _hold(url: str, seconds: float) -> None:
    with contextlib.suppress(httpx.ReadTimeout):
        httpx.post(f"{url}/completion", json={**LONG, "stream": False}, timeout=seconds)


def test_a_request_that_takes_too_long_ends_where_it_is(model_path: Path) -> None:
    with running(model_path, ServerSettings(time_limit=0.05, grace=2), **ROOM) as server:
        answer = httpx.post(f"{server.url}/completion", json={**LONG, "stream": False}, timeout=TIMEOUT).json()
        assert answer["stop_type"] == "limit"
        assert answer["tokens_predicted"] < 4000


def test_pace_learns() -> None:
    pace = Pace()
    for _ in range(50):
        pace.observe(4.0)
    assert 7 < pace.wait(8, 2) < 9
    assert pace.wait(0, 2) == 1
