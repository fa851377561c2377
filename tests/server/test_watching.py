"""What can be watched: the steps of a stream, requests that are over, the engine while it runs, the page itself."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.server.record import Record
from foretoken.server.requests_kept import KeptRequests
from foretoken.server.settings import ServerSettings
from foretoken.server.shapes import Choice
from foretoken.types import Chunk, Finish, Request, Step, TokenInfo, Usage
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

CHAT = {
    "messages": [{"role": "user", "content": "one two three one two three one two three one two"}],
    "max_tokens": 48, "temperature": 0, "ignore_eos": True, "stream": True,
}  # fmt: skip


def stream(http: httpx.Client, **fields: Any) -> tuple[str, list[dict[str, Any]]]:
    """The request's id and the events of a streamed chat."""
    with http.stream("POST", "/v1/chat/completions", json={**CHAT, **fields}) as answer:
        assert answer.status_code == 200, answer.read()
        lines = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
        return answer.headers["x-request-id"], [json.loads(line) for line in lines if line != "[DONE]"]


def test_steps_are_told_only_when_asked_for(http: httpx.Client) -> None:
    _, plain = stream(http)
    assert all("type" not in event for event in plain)
    name, events = stream(http, return_speculation=True, logprobs=True, top_logprobs=3, cache_prompt=False)
    steps = [event for event in events if event.get("type") == "foretoken.step"]
    rest = [event for event in events if event.get("type") is None]
    text = "".join(event["choices"][0]["delta"].get("content") or "" for event in rest)
    assert text == "".join(event["choices"][0]["delta"].get("content") or "" for event in plain)
    tokens = [token for event in steps for token in event["tokens"]]
    assert len(tokens) == 48
    assert all(len(token["top"]) == 3 and token["logprob"] <= 0 for token in tokens)
    assert sum(event["step"]["tokens"] for event in steps if event["step"]) == 48
    kept = http.get(f"/requests/{name}").json()["choices"][0]
    assert kept["tokens"] == tokens
    assert kept["steps"] == [event["step"] for event in steps if event["step"]]
    assert (kept["text"], kept["finish"]) == (text, "length")
    assert b"".join(bytes(t.get("bytes") or t["text"].encode()) for t in tokens).decode("utf-8", "replace") == text
    usage = kept["speculation"]
    assert usage["drafted"] == sum(step["drafted"] for step in kept["steps"])
    assert usage["accepted"] == sum(token["origin"] != "model" for token in tokens)


def test_requests_are_listed_latest_first(http: httpx.Client) -> None:
    first = http.post("/completion", json={"prompt": "The river", "n_predict": 3}, headers={"x-request-id": "a-1"})
    assert first.status_code == 200
    http.post("/completion", json={"prompt": ["a b", "c d"], "n_predict": 3}, headers={"x-request-id": "a-2"})
    listed = http.get("/requests").json()["data"]
    assert [one["id"] for one in listed[:2]] == ["a-2", "a-1"]
    assert listed[1]["n_tokens"] == 3
    whole = http.get("/requests/a-2").json()
    assert len(whole["choices"]) == 2
    assert whole["prompt_end"].endswith("a b")
    assert http.get("/requests/none").status_code == 404


def test_a_client_that_left_has_a_page_too(server: RunningServer) -> None:
    body = {"prompt": "x", "n_predict": 400, "ignore_eos": True, "stream": True}
    headers = {"x-request-id": "left-early"}
    with httpx.stream("POST", f"{server.url}/completion", json=body, headers=headers, timeout=TIMEOUT) as answer:
        next(answer.iter_lines())
    found = f"{server.url}/requests/left-early"
    wait_until(lambda: httpx.get(found).status_code == 200, "the request to be over")
    assert httpx.get(found).json()["choices"][0]["finish"] == "cancelled"


@pytest.fixture(scope="module")
def locked(model_path: Path) -> Iterator[RunningServer]:
    settings = ServerSettings(api_keys=("one", "two"), grace=5, keep_requests=2)
    with running(model_path, settings) as server:
        yield server


def test_nothing_is_shown_to_another_key(locked: RunningServer) -> None:
    one, two = ({"authorization": f"Bearer {key}"} for key in ("one", "two"))
    body = {"prompt": "secret", "n_predict": 2}
    for name in ("r1", "r2", "r3"):
        httpx.post(f"{locked.url}/completion", json=body, headers={**one, "x-request-id": name}, timeout=TIMEOUT)
    assert [kept["id"] for kept in httpx.get(f"{locked.url}/requests", headers=one).json()["data"]] == ["r3", "r2"]
    assert httpx.get(f"{locked.url}/requests", headers=two).json()["data"] == []
    assert httpx.get(f"{locked.url}/requests/r3", headers=one).status_code == 200
    assert httpx.get(f"{locked.url}/requests/r1", headers=one).status_code == 404
    assert httpx.get(f"{locked.url}/requests/r3", headers=two).status_code == 404
    assert httpx.get(f"{locked.url}/requests/r3").status_code == 401
    for path in ("/requests", "/live", "/live/stream"):
        assert httpx.get(f"{locked.url}{path}", headers={"accept": "text/html"}).status_code == 401
    # To a browser without a key it is the page, which knows nothing.
    page = httpx.get(f"{locked.url}/requests/r3", headers={"accept": "text/html"})
    assert page.status_code == 200
    assert page.text == httpx.get(locked.url).text
    assert "secret" not in page.text


def looks(url: str, n: int) -> list[dict[str, Any]]:
    with httpx.stream("GET", f"{url}/live/stream", timeout=TIMEOUT) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        return [json.loads(next(lines)[6:]) for _ in range(n)]


def test_the_engine_is_watched_while_somebody_watches(server: RunningServer, http: httpx.Client) -> None:
    stream(http)
    first, second = looks(server.url, 2)
    assert first["state"] == "ready"
    assert first["rates"] is None
    assert second["rates"] == {"tokens": 0.0, "prompt_tokens": 0.0, "steps": 0.0}
    assert second["uptime"] > first["uptime"]
    assert [slot["busy"] for slot in second["slots"]] == [False, False]
    assert second["totals"]["emitted"] > 0
    assert set(second["drafters"]) == set(http.get("/props").json()["drafters"])
    used = [width for width in second["widths"] if width["steps"]]
    assert used
    assert all(width["ms"] > 0 for width in used)
    asked: list[float] = []
    live = server.worker.live

    async def counted() -> object:
        asked.append(time.monotonic())
        return await live()

    server.worker.live = counted
    try:
        looks(server.url, 1)
        wait_until(lambda: not asked or time.monotonic() - asked[-1] > 1.5, "the watch to end")
        n = len(asked)
        time.sleep(1.2)
        assert len(asked) == n, "nobody watches, and the engine is still asked"
    finally:
        del server.worker.live
    assert http.get("/live").json()["rates"] is None


def test_a_watched_server_stops_at_once(model_path: Path) -> None:
    with running(model_path, ServerSettings(grace=20)) as server:
        with httpx.stream("GET", f"{server.url}/live/stream", timeout=TIMEOUT) as answer:
            lines = answer.iter_lines()
            next(lines)
            began = time.monotonic()
            server.on_loop(server.server.stop)  # type: ignore[union-attr]
            for _ in lines:
                pass
        server.stop()
        assert time.monotonic() - began < 10


def test_the_page_may_do_nothing_but_ask_its_server(http: httpx.Client, model_path: Path) -> None:
    page = http.get("/")
    assert page.headers["content-type"].startswith("text/html")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert http.get("/page/main.js").headers["content-type"].startswith("text/javascript")
    assert http.get("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    for name in ("../__init__.py", "%2e%2e/__init__.py", "__init__.py", "vendor", "", "none.js"):
        assert http.get(f"/page/{name}").status_code == 404, name
    with running(model_path, ServerSettings(page=False, grace=1)) as plain:
        for path in ("/", "/page/main.js", "/requests/x"):
            assert httpx.get(plain.url + path, headers={"accept": "text/html"}).status_code == 404


def _choice(n_tokens: int) -> Choice:
    choice = Choice()
    tokens = tuple(TokenInfo(65, b"A") for _ in range(n_tokens))
    choice.take(Chunk(0, "A" * n_tokens, tokens, Step(1, 0, 0, 0, 1.0)))
    choice.take(Finish(0, "stop", Usage(completion_tokens=n_tokens)))
    return choice


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.integers(1, 30)), max_size=60))
def test_what_is_kept_is_bounded_and_apart(ops: list[tuple[str, int, int]]) -> None:
    kept = KeptRequests(3, max_bytes=30_000)
    latest: dict[str, list[str]] = {"a": [], "b": []}
    for owner, number, n_tokens in ops:
        name = str(number)
        kept.keep(Record(name, "POST", "/completion", owner), [Request((1, 2))], [_choice(n_tokens)])
        latest[owner] = [name, *(other for other in latest[owner] if other != name)]
        assert kept.get(owner, name) is not None
        assert kept.n_bytes == sum(one.n_bytes for who in "ab" for one in kept.of(who)) <= 30_000
        for who in "ab":
            names = [one.id for one in kept.of(who)]
            assert len(names) <= 3
            assert names == latest[who][: len(names)]
            assert all(one.owner == who for one in kept.of(who))
