"""Anthropic's official client, as people use it; its answers are the engine's own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx
import pytest

from foretoken.engine.engine import Engine
from foretoken.server.settings import ServerSettings
from tests.server.running import TIMEOUT, RunningServer, running
from tests.server.test_openai_client import CHATML, plain

MESSAGES: list[Any] = [{"role": "user", "content": "What is a river?"}]
GREEDY = {"temperature": 0}


@pytest.fixture
def claude(server: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="none", timeout=TIMEOUT, max_retries=0) as client:
        yield client


def ask(client: anthropic.Anthropic, **fields: Any) -> anthropic.types.Message:
    given = {"model": "any", "messages": MESSAGES, "max_tokens": 24, "extra_body": GREEDY, **fields}
    return client.messages.create(**given)  # type: ignore[no-any-return]


def text_of(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_messages_say_what_the_engine_says(claude: anthropic.Anthropic, engine: Engine) -> None:
    answer = ask(claude)
    assert text_of(answer) == plain(engine, CHATML)
    assert (answer.type, answer.role, answer.stop_reason) == ("message", "assistant", "max_tokens")
    usage = answer.usage
    assert usage.output_tokens == 24
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == len(engine.tokenize(CHATML))


def test_what_was_cached_is_told(claude: anthropic.Anthropic) -> None:
    asked: Any = [{"role": "user", "content": "Tell me of the sea, the wind and the stones of the shore."}]
    first = ask(claude, messages=asked, max_tokens=1).usage
    n_prompt = first.input_tokens + (first.cache_read_input_tokens or 0)
    begun: Any = [*asked, {"role": "assistant", "content": "Once"}]
    second = ask(claude, messages=begun).usage
    assert second.cache_read_input_tokens == n_prompt
    assert second.input_tokens > 0


def test_system_and_blocks_become_the_same_prompt(claude: anthropic.Anthropic, engine: Engine) -> None:
    expected = plain(engine, "<|im_start|>system\nBe brief.<|im_end|>\n" + CHATML)
    blocks: Any = [{"role": "user", "content": [{"type": "text", "text": "What is a river?"}]}]
    assert text_of(ask(claude, system="Be brief.")) == expected
    cached: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    assert text_of(ask(claude, system=cached, messages=blocks)) == expected


def test_an_answer_that_was_begun_is_continued(claude: anthropic.Anthropic, engine: Engine) -> None:
    begun: Any = [*MESSAGES, {"role": "assistant", "content": "A river is"}]
    assert text_of(ask(claude, messages=begun)) == plain(engine, CHATML + "A river is")


def test_stop_sequence(claude: anthropic.Anthropic, engine: Engine) -> None:
    whole = plain(engine, CHATML)
    stop = whole[8:12]
    answer = ask(claude, stop_sequences=[stop])
    assert text_of(answer) == whole[: whole.index(stop)]
    assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", stop)


def test_stream_has_anthropics_events_in_order(claude: anthropic.Anthropic, engine: Engine) -> None:
    events = list(ask(claude, stream=True))  # type: ignore[call-overload]
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"]
    assert set(kinds[2:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert "".join(e.delta.text for e in events if e.type == "content_block_delta") == plain(engine, CHATML)
    end = events[-2]
    assert (end.delta.stop_reason, end.usage.output_tokens) == ("max_tokens", 24)
    assert end.usage.input_tokens + end.usage.cache_read_input_tokens == events[0].message.usage.input_tokens


def test_raw_stream_is_named_and_pinged(http: httpx.Client) -> None:
    body = {"model": "any", "messages": MESSAGES, "max_tokens": 2, "stream": True}
    text = http.post("/v1/messages", json=body).text
    events = [piece.split("\n")[0] for piece in text.strip().split("\n\n")]
    assert events[:3] == ["event: message_start", "event: ping", "event: content_block_start"]
    assert events[-1] == "event: message_stop"
    assert "[DONE]" not in text


def test_streaming_helper_collects_the_message(claude: anthropic.Anthropic, engine: Engine) -> None:
    asked: Any = {"model": "any", "messages": MESSAGES, "max_tokens": 24, "extra_body": GREEDY}
    with claude.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == text_of(final) == plain(engine, CHATML)
    assert final.stop_reason == "max_tokens"


def test_async_client(server: RunningServer, engine: Engine) -> None:
    async def main() -> tuple[str, str, int]:
        async with anthropic.AsyncAnthropic(base_url=server.url, api_key="none", timeout=TIMEOUT) as client:
            asked: Any = {"model": "any", "messages": MESSAGES, "max_tokens": 16, "extra_body": GREEDY}
            whole = await client.messages.create(**asked)
            async with client.messages.stream(**asked) as stream:
                text = "".join([piece async for piece in stream.text_stream])
            counted = await client.messages.count_tokens(model="any", messages=MESSAGES)
            return text_of(whole), text, counted.input_tokens

    expected = plain(engine, CHATML, 16)
    assert asyncio.run(main()) == (expected, expected, len(engine.tokenize(CHATML)))


def test_count_tokens_counts_the_prompt(claude: anthropic.Anthropic, engine: Engine) -> None:
    counted = claude.messages.count_tokens(model="any", messages=MESSAGES, system="Be brief.")
    assert counted.input_tokens == len(engine.tokenize("<|im_start|>system\nBe brief.<|im_end|>\n" + CHATML))


def test_text_does_not_depend_on_speculation(claude: anthropic.Anthropic) -> None:
    asked: Any = [{"role": "user", "content": "one two three one two three one two three one two"}]
    answers = [
        text_of(ask(claude, messages=asked, max_tokens=64, extra_body={**GREEDY, "speculative": {"type": kind}}))
        for kind in ("none", "auto")
    ]
    assert answers[0] == answers[1]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"messages": [{"role": "user", "content": [IMAGE]}]}, "reads text"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "Anthropic's servers"),
    ({"tools": [{"name": "look"}]}, "input_schema"),
    ({"extra_body": {"mcp_servers": [{"url": "x"}]}}, "mcp_servers"),
    ({"messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": 3}]}]},
     "must be an object"),
    ({"messages": [{"role": "user", "content": [{"type": "tool_result", "content": "x"}]}]}, "tool_use_id"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_cannot_be_served_says_why(claude: anthropic.Anthropic, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(anthropic.BadRequestError) as refused:
        ask(claude, **fields)
    body: Any = refused.value.body
    assert body["type"] == "error"
    assert body["error"]["type"] == "invalid_request_error"
    assert reason in body["error"]["message"]
    assert refused.value.request_id


def test_a_key_is_wanted_in_anthropics_own_header(model_path: Path) -> None:
    with running(model_path, ServerSettings(api_keys=("secret",), grace=2), n_parallel=1) as server:
        with anthropic.Anthropic(base_url=server.url, api_key="wrong", max_retries=0) as client:
            with pytest.raises(anthropic.AuthenticationError) as refused:
                ask(client)
            body: Any = refused.value.body
            assert body["error"]["type"] == "authentication_error"
        with anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0, timeout=TIMEOUT) as client:
            assert text_of(ask(client, max_tokens=4))
