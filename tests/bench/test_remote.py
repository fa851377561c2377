"""Other servers: what they are sent, and what is made of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from foretoken.bench.cases import Case
from foretoken.bench.remote import Server
from foretoken.errors import ForetokenError
from foretoken.types import SamplingParams

CHAT = Case("w", "c", "<user>hi<assistant>", SamplingParams(temperature=0), 8, ({"role": "user", "content": "hi"},))
Handler = Callable[[str, dict[str, Any]], httpx.Response]


def stream(*events: object) -> httpx.Response:
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return httpx.Response(200, text="".join(lines) + "data: [DONE]\n\n")


def server(handler: Handler, **settings: Any) -> Server:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "tiny"}]})
        return handler(request.url.path, json.loads(request.content))

    return Server("http://other:1/v1", transport=httpx.MockTransport(handle), **settings)


def test_the_servers_own_clock_and_count_are_used() -> None:
    def handler(path: str, body: dict[str, Any]) -> httpx.Response:
        assert path == "/v1/completions"
        assert (body["prompt"], body["model"], body["temperature"]) == (CHAT.prompt, "tiny", 0)
        return stream(
            {"choices": [{"text": "a b"}]},
            {"choices": [{"text": " c"}], "timings": {"predicted_n": 5, "predicted_ms": 123.0}},
        )

    (answer,) = server(handler).ask([CHAT])
    assert (answer.text, answer.n_tokens, answer.generation_ms) == ("a b c", 5, 123.0)
    assert sum(n for _, n in answer.marks) == 5


def test_usage_counts_where_there_are_no_timings() -> None:
    def handler(path: str, body: dict[str, Any]) -> httpx.Response:
        return stream({"choices": [{"text": "xyz"}]}, {"choices": [], "usage": {"completion_tokens": 7}})

    (answer,) = server(handler).ask([CHAT])
    assert answer.n_tokens == 7


def test_servers_with_nothing_but_chat_are_asked_by_chat() -> None:
    def handler(path: str, body: dict[str, Any]) -> httpx.Response:
        if path != "/v1/chat/completions":
            return httpx.Response(404)
        assert body["messages"] == list(CHAT.messages)
        return stream({"choices": [{"delta": {"content": "hello"}}]}, {"choices": [{"delta": {}}]})

    other = server(handler)
    assert [answer.text for answer in other.ask([CHAT, CHAT])] == ["hello", "hello"]


def test_strict_servers_get_only_what_everybody_knows() -> None:
    def handler(path: str, body: dict[str, Any]) -> httpx.Response:
        if "cache_prompt" in body:
            return httpx.Response(400, json={"error": "unknown field"})
        return stream({"choices": [{"text": "fine"}]})

    assert [answer.text for answer in server(handler).ask([CHAT] * 4)] == ["fine"] * 4


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (httpx.Response(500, text="out of memory"), "out of memory"),
        (stream({"error": {"message": "no slot"}}), "no slot"),
    ],
)
def test_failures_say_whose_they_are(reply: httpx.Response, words: str) -> None:
    with pytest.raises(ForetokenError, match=words):
        server(lambda path, body: reply, label="other").ask([CHAT])


def test_nobody_there() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(ForetokenError, match="does not answer"):
        Server("http://other:1", transport=httpx.MockTransport(refuse))
