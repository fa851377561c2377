"""Templates with thoughts, through a running server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
