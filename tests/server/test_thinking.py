"""Templates with thoughts, through a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from foretoken.engine.engine import Engine
from foretoken.server.settings import ServerSettings
from foretoken.types import Request, SamplingParams
from tests.server.running import TIMEOUT, RunningServer, running

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: "
    "{% if enable_thinking is not defined or enable_thinking %}<think>\n{% else %}<think>\n\n</think>\n\n{% endif %}"
)
MESSAGES = [{"role": "user", "content": "Why?"}]


@pytest.fixture(scope="module")
def thinker(model_path: Path) -> Iterator[RunningServer]:
    settings = ServerSettings(chat_template=TEMPLATE, reasoning="off", grace=2)
    with running(model_path, settings) as server:
        yield server


def ask(server: RunningServer, **fields: object) -> openai.types.chat.ChatCompletionMessage:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=TIMEOUT) as client:
        answer = client.chat.completions.create(
            model="any", messages=MESSAGES, temperature=0, max_tokens=12, extra_body=fields
        )  # type: ignore[call-overload]
        return answer.choices[0].message  # type: ignore[no-any-return]


def plain(engine: Engine, prompt: str) -> str:
    return engine.complete(Request(prompt, SamplingParams(temperature=0), max_tokens=12))


def test_the_server_switches_thinking_off(thinker: RunningServer, engine: Engine) -> None:
    message = ask(thinker)
    assert message.content == plain(engine, "user: Why?\nassistant: <think>\n\n</think>\n\n")
    assert "reasoning_content" not in (message.model_extra or {})


def test_a_request_switches_it_on_and_gets_thoughts_apart(thinker: RunningServer, engine: Engine) -> None:
    message = ask(thinker, chat_template_kwargs={"enable_thinking": True})
    thought = plain(engine, "user: Why?\nassistant: <think>\n")
    assert message.content == ""
    assert (message.model_extra or {})["reasoning_content"] == thought.strip("\n")


def test_thoughts_stay_in_the_text_if_asked(thinker: RunningServer, engine: Engine) -> None:
    message = ask(thinker, chat_template_kwargs={"enable_thinking": True}, reasoning_format="none")
    assert message.content == plain(engine, "user: Why?\nassistant: <think>\n")


def claude(server: RunningServer, **fields: Any) -> Any:
    with anthropic.Anthropic(base_url=server.url, api_key="none", timeout=TIMEOUT, max_retries=0) as client:
        asked: Any = {
            "model": "any",
            "messages": MESSAGES,
            "max_tokens": 12,
            "extra_body": {"temperature": 0},
            **fields,
        }
        return client.messages.create(**asked) if "stream" not in fields else list(client.messages.create(**asked))


def test_anthropics_dialect_has_thinking_blocks(thinker: RunningServer, engine: Engine) -> None:
    thought = plain(engine, "user: Why?\nassistant: <think>\n").strip("\n")
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert [(block.type, block.thinking) for block in claude(thinker, thinking=thinking).content] == [
        ("thinking", thought)
    ]
    events = claude(thinker, thinking=thinking, stream=True)
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    assert "".join(delta.thinking for delta in deltas if delta.type == "thinking_delta") == thought
    assert deltas[-1].type == "signature_delta"
    assert [block.type for block in claude(thinker, thinking={"type": "disabled"}).content] == ["text"]


def test_responses_have_reasoning_items(thinker: RunningServer, engine: Engine) -> None:
    thought = plain(engine, "user: Why?\nassistant: <think>\n").strip("\n")
    asked: Any = {"model": "any", "input": "Why?", "temperature": 0, "max_output_tokens": 12, "store": False}
    extra = {"chat_template_kwargs": {"enable_thinking": True}}
    with openai.OpenAI(base_url=f"{thinker.url}/v1", api_key="none", timeout=TIMEOUT) as client:
        whole = client.responses.create(**asked, extra_body=extra)
        events = list(client.responses.create(**asked, extra_body=extra, stream=True))
        silent = client.responses.create(**asked, reasoning={"effort": "none"})
    item: Any = whole.output[0]
    assert (item.type, item.content[0].text) == ("reasoning", thought)
    assert whole.usage is not None
    assert whole.usage.output_tokens_details.reasoning_tokens > 0
    assert "".join(event.delta for event in events if event.type == "response.reasoning_text.delta") == thought
    assert [item.type for item in silent.output] == ["message"]
