"""Probabilities through the official client: of answers, and of prompts."""

from __future__ import annotations

import math

import openai
import pytest

from foretoken.engine.engine import Engine
from foretoken.types import Finish, Request, SamplingParams

GREEDY = SamplingParams(temperature=0)
MESSAGES = [{"role": "user", "content": "What is a river?"}]
PROMPT = "The river runs"


def plain(engine: Engine, prompt: str, n: int) -> str:
    return engine.complete(Request(prompt, GREEDY, max_tokens=n))


def test_logprobs_of_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="any", messages=MESSAGES, temperature=0, max_tokens=8, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 8
    for entry in logprobs.content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == entry.top_logprobs[0].logprob
        assert bytes(entry.bytes or []).decode("utf-8", "replace") == entry.token


def test_logprobs_of_a_completion(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.completions.create(model="any", prompt=PROMPT, temperature=0, max_tokens=8, logprobs=2)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.tokens is not None
    assert len(logprobs.tokens) == len(logprobs.token_logprobs or []) == 8
    assert all(len(top) <= 2 for top in logprobs.top_logprobs or [])
    events = engine.generate(Request(PROMPT, GREEDY, max_tokens=8, logprobs=2))
    expected = [info.logprob for event in events if not isinstance(event, Finish) for info in event.tokens]
    assert logprobs.token_logprobs is not None
    assert all(math.isclose(a, b or 0, abs_tol=1e-5) for a, b in zip(logprobs.token_logprobs, expected, strict=True))


@pytest.mark.parametrize("n", [0, 3])
def test_scoring_a_prompt_as_evaluation_harnesses_do(client: openai.OpenAI, engine: Engine, n: int) -> None:
    prompt = "Ein Fluß — río"
    answer = client.completions.create(model="any", prompt=prompt, temperature=0, max_tokens=n, echo=True, logprobs=2)
    choice, logprobs = answer.choices[0], answer.choices[0].logprobs
    assert logprobs is not None
    tokens = engine.tokenize(prompt)
    assert choice.text == prompt + plain(engine, prompt, n)
    assert logprobs.token_logprobs is not None
    assert len(logprobs.tokens or []) == len(logprobs.token_logprobs) == len(tokens) + n
    assert logprobs.token_logprobs[0] is None
    assert (logprobs.top_logprobs or [{}])[0] is None
    assert logprobs.text_offset is not None
    assert logprobs.text_offset[0] == 0
    assert logprobs.text_offset == sorted(logprobs.text_offset)
    request = Request(tokens[:-1], GREEDY, max_tokens=1, logprobs=100)
    event = next(iter(engine.generate(request)))
    assert not isinstance(event, Finish)
    alternatives = dict(event.tokens[0].top)
    if tokens[-1] in alternatives:
        assert math.isclose(logprobs.token_logprobs[len(tokens) - 1], alternatives[tokens[-1]], abs_tol=1e-4)
