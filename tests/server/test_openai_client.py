"""The official client, as people use it; its answers are the engine's own."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from foretoken.engine.engine import Engine
from foretoken.types import Request, SamplingParams
from tests.server.running import TIMEOUT, RunningServer

GREEDY = SamplingParams(temperature=0)
MESSAGES = [{"role": "user", "content": "What is a river?"}]
CHATML = "<|im_start|>user\nWhat is a river?<|im_end|>\n<|im_start|>assistant\n"
PROMPT = "The river runs"


def plain(engine: Engine, prompt: str, n: int = 24, **fields: object) -> str:
    return engine.complete(Request(prompt, max_tokens=n, **{"sampling": GREEDY, **fields}))  # type: ignore[arg-type]


def test_chat_says_what_the_engine_says(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.chat.completions.create(model="any", messages=MESSAGES, temperature=0, max_tokens=24)
    choice = answer.choices[0]
    assert choice.message.content == plain(engine, CHATML)
    assert choice.finish_reason == "length"
    assert answer.object == "chat.completion"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 24
    assert answer.usage.prompt_tokens == len(engine.tokenize(CHATML))


def test_stream_carries_the_same_text_and_the_usage(client: openai.OpenAI, engine: Engine) -> None:
    stream = client.chat.completions.create(
        model="any", messages=MESSAGES, temperature=0, max_tokens=24, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == plain(engine, CHATML)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 24
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"


async def _ask_async(url: str) -> tuple[str | None, str]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=TIMEOUT) as client:
        asked = {"model": "any", "messages": MESSAGES, "temperature": 0, "max_tokens": 16}
        whole = await client.chat.completions.create(**asked)  # type: ignore[call-overload]
        text = ""
        async for chunk in await client.chat.completions.create(**asked, stream=True):  # type: ignore[call-overload]
            text += chunk.choices[0].delta.content or ""
        return whole.choices[0].message.content, text


def test_async_client(server: RunningServer, engine: Engine) -> None:
    import asyncio

    expected = plain(engine, CHATML, 16)
    assert asyncio.run(_ask_async(server.url)) == (expected, expected)


def test_several_choices_of_several_prompts(client: openai.OpenAI, engine: Engine) -> None:
    prompts = [PROMPT, "Once upon a time"]
    answer = client.completions.create(model="any", prompt=prompts, temperature=0, max_tokens=10, n=2)
    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    expected = [plain(engine, prompt, 10) for prompt in prompts for _ in range(2)]
    assert [choice.text for choice in answer.choices] == expected
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(len(engine.tokenize(prompt)) for prompt in prompts)


def test_streamed_choices_are_told_apart(client: openai.OpenAI) -> None:
    asked = {"model": "any", "prompt": PROMPT, "max_tokens": 12, "n": 3, "seed": 5}
    whole = client.completions.create(**asked)  # type: ignore[call-overload]
    texts = ["", "", ""]
    for chunk in client.completions.create(**asked, stream=True):  # type: ignore[call-overload]
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]
    assert len(set(texts)) > 1


def test_stop_ends_before_the_text(client: openai.OpenAI, engine: Engine) -> None:
    text = plain(engine, PROMPT)
    stop = text[8:11]
    answer = client.completions.create(model="any", prompt=PROMPT, temperature=0, max_tokens=24, stop=[stop])
    assert answer.choices[0].text == text[: text.index(stop)]
    assert answer.choices[0].finish_reason == "stop"


def test_seed_repeats_and_matters(client: openai.OpenAI, engine: Engine) -> None:
    asked = {"model": "any", "prompt": PROMPT, "max_tokens": 16, "temperature": 1.0}
    first, again, other = (
        client.completions.create(**asked, seed=seed).choices[0].text  # type: ignore[call-overload]
        for seed in (7, 7, 8)
    )
    assert first == again != other
    assert first == plain(engine, PROMPT, 16, sampling=SamplingParams(temperature=1.0, seed=7))


def test_logit_bias_forces_and_bans(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.completions.create(model="any", prompt=PROMPT, temperature=0, max_tokens=4, logit_bias={"65": 100})
    assert answer.choices[0].text == engine.detokenize([65]) * 4
    first = plain(engine, PROMPT, 1)
    token = engine.vocabulary.tokenize(first, add_special=False)[0]
    answer = client.completions.create(
        model="any", prompt=PROMPT, temperature=0, max_tokens=1, logit_bias={str(token): -100}
    )
    assert answer.choices[0].text != first


def test_echo_and_token_prompts(client: openai.OpenAI, engine: Engine) -> None:
    tokens = engine.tokenize(PROMPT)
    answer = client.completions.create(model="any", prompt=tokens, temperature=0, max_tokens=5, echo=True)
    assert answer.choices[0].text == PROMPT + plain(engine, PROMPT, 5)


def test_suffix_fills_in(client: openai.OpenAI, engine: Engine) -> None:
    vocabulary = engine.vocabulary
    before, after, middle = vocabulary.fim_prefix, vocabulary.fim_suffix, vocabulary.fim_middle
    assert before is not None
    assert after is not None
    assert middle is not None
    tokens = [before, *engine.tokenize("def f("), after, *engine.tokenize("return x"), middle]
    answer = client.completions.create(model="any", prompt="def f(", suffix="return x", temperature=0, max_tokens=8)
    assert answer.choices[0].text == engine.complete(Request(tokens, GREEDY, max_tokens=8))


def test_sampling_fields_of_llama_cpp_pass_through(client: openai.OpenAI, engine: Engine) -> None:
    params = SamplingParams(temperature=0.7, top_k=5, min_p=0.1, repeat_penalty=1.3, seed=3)
    answer = client.completions.create(
        model="any", prompt=PROMPT, max_tokens=16, temperature=0.7, seed=3,
        extra_body={"top_k": 5, "min_p": 0.1, "repeat_penalty": 1.3},
    )  # fmt: skip
    assert answer.choices[0].text == plain(engine, PROMPT, 16, sampling=params)


def test_speculation_can_be_switched_off_and_is_reported(client: openai.OpenAI, engine: Engine) -> None:
    prompt = "one two three one two three one two three one two"
    answer = client.completions.create(
        model="any", prompt=prompt, temperature=0, max_tokens=16, extra_body={"speculative": {"type": "none"}}
    )
    assert answer.choices[0].text == plain(engine, prompt, 16)
    assert answer.usage is not None
    speculation = answer.usage.model_extra["speculation"]  # type: ignore[index]
    assert speculation["drafted"] == 0
    assert speculation["drafters"] == {}


def test_a_request_chooses_its_drafters_and_bounds(client: openai.OpenAI, engine: Engine) -> None:
    prompt = "one two three one two three one two three one two"

    def ask(**speculative: object) -> tuple[str, dict[str, Any]]:
        answer = client.completions.create(
            model="any", prompt=prompt, temperature=0, max_tokens=60, extra_body={"speculative": speculative}
        )
        assert answer.usage is not None
        return answer.choices[0].text, answer.usage.model_extra["speculation"]  # type: ignore[index]

    expected = plain(engine, prompt, 60)
    text, speculation = ask(type="suffix")
    assert text == expected
    assert set(speculation["drafters"]) == {"suffix"}
    text, speculation = ask(n_max=0)
    assert text == expected
    assert speculation["drafted"] == 0


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["qwen35-Q8_0.gguf"]
    assert client.models.retrieve("qwen35-Q8_0").id == "qwen35-Q8_0.gguf"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "function", "function": {"name": "not a name"}}]},
        {"tools": [{"type": "web_search"}]},
        {"tools": [{"type": "function", "function": {"name": "f"}}] * 2},
        {"tool_choice": "required"},
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "sometimes"},
        {
            "tools": [{"type": "function", "function": {"name": "f"}}],
            "tool_choice": {"type": "function", "function": {"name": "g"}},
        },
        {"response_format": {"type": "xml"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "nonsense"}}}},
        {"messages": []},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]},
        {"max_tokens": "many"},
        {"temperature": 1e300},
        {"top_logprobs": 1000, "logprobs": True},
        {"n": 0},
        {"stop": [""]},
        {"logit_bias": {"99999999": 1}},
        {"extra_body": {"grammar": "root ::= x"}},
        {"extra_body": {"speculative": {"type": "magic"}}},
        {"extra_body": {"samplers": ["temperature", "top_k"]}},
        {"extra_body": {"chat_template_kwargs": {"messages": []}}},
        {"messages": [{"role": "user", "content": "river " * 2000}]},
    ],
)
def test_what_cannot_be_honoured_is_refused_with_a_reason(client: openai.OpenAI, fields: dict[str, object]) -> None:
    asked = {"model": "any", "messages": MESSAGES, "max_tokens": 4, **fields}
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**asked)  # type: ignore[call-overload]
    body = caught.value.body
    assert isinstance(body, dict)
    assert body["message"]
    assert body["type"] in ("invalid_request_error", "exceed_context_size_error")


def test_best_of_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="best_of"):
        client.completions.create(model="any", prompt=PROMPT, best_of=4)
