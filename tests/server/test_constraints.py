"""Answers that keep to a schema, a grammar or an expression, through every endpoint that can ask for one."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, ConfigDict, Field

from foretoken.models import path_of
from foretoken.server.settings import ServerSettings
from tests.grammar.schemas import LONG_KEYS
from tests.server.running import TIMEOUT, RunningServer, running

MESSAGES: Any = [{"role": "user", "content": "Which river, and how long is it?"}]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "river": {"enum": ["Rhine", "Danube"]},
        "length": {"type": "integer", "minimum": 0, "maximum": 9999},
        "towns": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 2},
    },
    "required": ["river", "length", "towns"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "river", "schema": SCHEMA, "strict": True}}


def ask(client: openai.OpenAI, **fields: Any) -> Any:
    return client.chat.completions.create(**{"model": "any", "messages": MESSAGES, "max_tokens": 300, **fields})


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_schema_is_kept_to_with_and_without_speculation(client: openai.OpenAI, temperature: float) -> None:
    answers = []
    for speculative in ("auto", "none"):
        extra = {"speculative": {"type": speculative}}
        answer = ask(client, response_format=FORMAT, temperature=temperature, seed=5, extra_body=extra)
        assert answer.choices[0].finish_reason == "stop"
        answers.append(answer.choices[0].message.content)
    jsonschema.validate(json.loads(answers[0]), SCHEMA)
    assert answers[0] == answers[1]


def test_what_a_schema_forces_takes_no_steps_of_its_own() -> None:
    """As the server comes: nobody asks for a drafter or a plan."""
    body = {"messages": MESSAGES, "json_schema": LONG_KEYS, "max_tokens": 300, "temperature": 0}
    with running(path_of("mini")) as server, httpx.Client(base_url=server.url, timeout=TIMEOUT) as http:
        speculated = http.post("/v1/chat/completions", json=body).json()
        plain = http.post("/v1/chat/completions", json={**body, "speculative": {"type": "none"}}).json()
    assert speculated["choices"][0]["message"] == plain["choices"][0]["message"]
    told = speculated["usage"]["speculation"]
    assert told["steps"] * 2 <= plain["usage"]["speculation"]["steps"]
    assert told["drafters"]["grammar"]["accepted"] > 0


def test_a_streamed_answer_keeps_to_it_too(client: openai.OpenAI) -> None:
    chunks = list(ask(client, response_format=FORMAT, stream=True, seed=1))
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    jsonschema.validate(json.loads(text), SCHEMA)


def test_every_choice_follows_the_schema_on_its_own(client: openai.OpenAI) -> None:
    answer = ask(client, response_format=FORMAT, n=3, seed=1, temperature=1.5)
    texts = [choice.message.content for choice in answer.choices]
    for text in texts:
        jsonschema.validate(json.loads(text), SCHEMA)
    assert len(set(texts)) > 1


def test_logprobs_are_the_models_own(client: openai.OpenAI) -> None:
    answer = ask(client, response_format=FORMAT, temperature=0, logprobs=True, top_logprobs=2)
    entries = answer.choices[0].logprobs.content
    # A forced token is mostly not what a random model wanted: the probabilities show it.
    assert any(entry.logprob < entry.top_logprobs[-1].logprob for entry in entries)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int = Field(ge=0, le=99)
    unit: Literal["cm", "m"]


class Boat(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=12)
    colour: Colour
    size: Size
    crew: list[Literal["Ann", "Ben"]] = Field(max_length=2)


def test_openais_own_parsing_of_pydantic_models(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="any", messages=MESSAGES, response_format=Boat, max_tokens=300, seed=2, temperature=1
    )
    assert isinstance(answer.choices[0].message.parsed, Boat)


def test_the_async_client_parses_too(server: RunningServer) -> None:
    async def parsed() -> Boat | None:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=TIMEOUT) as client:
            answer = await client.beta.chat.completions.parse(
                model="any", messages=MESSAGES, response_format=Boat, max_tokens=300, seed=3
            )
        return answer.choices[0].message.parsed

    assert isinstance(asyncio.run(parsed()), Boat)


def test_json_object_is_an_object(client: openai.OpenAI) -> None:
    answer = ask(client, response_format={"type": "json_object"}, max_tokens=24, temperature=0)
    assert answer.choices[0].message.content.startswith("{")


def test_text_is_free(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {"temperature": 0, "max_tokens": 8}
    free = ask(client, **fields).choices[0].message.content
    assert ask(client, response_format={"type": "text"}, **fields).choices[0].message.content == free


@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions", "/infill"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"json_schema": {"enum": ["a b", 7]}}, '"a b"|7'),
        ({"grammar": 'root ::= "yes" | "no" [!.]\n'}, r"yes|no[!.]"),
        ({"regex": r"[ab]{3}-\d"}, r"[ab]{3}-\d"),
        ({"lark": 'start: "x" /[0-9]{1,3}/ %json {"type": "null"}'}, r"x[0-9]{1,3}null"),
        ({"response_format": {"type": "json_schema", "schema": {"const": [1, {"b": None}]}}}, r'\[1, \{"b": null\}\]'),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_the_other_ways_to_ask(http: httpx.Client, path: str, fields: dict[str, Any], expected: str) -> None:
    body = {"messages": MESSAGES, "prompt": "a", "input_prefix": "a", "max_tokens": 60, "temperature": 0, **fields}
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    text = found.get("content") if "content" in found else None
    if text is None:
        choice = found["choices"][0]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
    assert re.fullmatch(expected, text), text


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"response_format": {"type": "json_schema"}}, "schema"),
        ({"response_format": "json"}, "type"),
        ({"response_format": {"type": "xml"}}, "none of"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}, "strict": True}}}, '"not"'),
        ({"json_schema": {"type": "nonsense"}}, "nonsense"),
        ({"json_schema": 5}, "object"),
        ({"json_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}}, "cannot be used"),
        ({"json_schema": {"type": "string", "pattern": "(?=a)"}}, "look-around"),
        ({"json_schema": {"type": "string", "minLength": 3, "maxLength": 2}}, "minLength"),
        ({"json_schema": {"$ref": "http://example.com/schema"}}, "example.com"),
        ({"json_schema": {"enum": [f"{n:09}" for n in range(12_000)]}}, "longer than"),
        ({"grammar": "root ::= x"}, "'x' not found"),
        ({"grammar": "root ::= " + "(" * 5000}, "nested"),
        ({"grammar": "  "}, "root"),
        ({"regex": "("}, "regex"),
        ({"regex": "(?<=a)b"}, "look-"),
        ({"lark": "start: nothing"}, "nothing"),
        ({"lark": "%json {"}, "lark"),
        ({"regex": "a", "grammar": 'root ::= "a"'}, "one of them"),
        ({"regex": "a", "ignore_eos": True}, "ignore_eos"),
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_what_cannot_be_used_is_refused_with_the_reason(
    http: httpx.Client, fields: dict[str, Any], reason: str, stream: bool
) -> None:
    answer = http.post("/v1/chat/completions", json={"messages": MESSAGES, "max_tokens": 4, "stream": stream, **fields})
    assert answer.status_code == 400, answer.text
    assert reason in answer.json()["error"]["message"]
    assert len(answer.json()["error"]["message"]) < 800


def test_a_schema_that_proves_too_complex_is_the_callers_mistake(http: httpx.Client) -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(1500)}, "required": ["p1499"]}
    answer = http.post("/v1/chat/completions", json={"messages": MESSAGES, "json_schema": wide})
    assert answer.status_code == 400, answer.text
    assert "max is" in answer.json()["error"]["message"]


def test_a_schema_that_is_not_strict_is_kept_to_as_far_as_can_be(client: openai.OpenAI) -> None:
    lax: Any = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": [1, 2], "not": {"const": 3}}}}
    assert ask(client, response_format=lax, max_tokens=8).choices[0].message.content in ("1", "2")


THINKING = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "<|im_start|>assistant\n{% if open %}<think>\n{% elif enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
)


@pytest.fixture(scope="module")
def thinker(model_path: Path) -> Iterator[httpx.Client]:
    settings = ServerSettings(grace=5, chat_template=THINKING)
    with running(model_path, settings) as server, httpx.Client(base_url=server.url, timeout=TIMEOUT) as http:
        yield http


def message(http: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"messages": MESSAGES, "response_format": FORMAT, "max_tokens": 300, "temperature": 0, **fields}
    answer = http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["choices"][0]["message"]
    return found


def test_a_thought_is_free_and_the_answer_behind_it_is_not(thinker: httpx.Client) -> None:
    """A bias makes the random model close its thought: what follows must be the schema's."""
    closing = {"logit_bias": [["</think>", 8]], "temperature": 1, "seed": 4}
    found = message(thinker, chat_template_kwargs={"open": True}, **closing)
    assert found["reasoning_content"]
    jsonschema.validate(json.loads(found["content"]), SCHEMA)


def test_a_thought_that_never_ends_is_no_answer(thinker: httpx.Client) -> None:
    found = message(thinker, chat_template_kwargs={"open": True}, max_tokens=12)
    assert found["reasoning_content"]
    assert not found["content"]


def test_without_thinking_the_answer_begins_at_once(thinker: httpx.Client) -> None:
    found = message(thinker, chat_template_kwargs={"enable_thinking": False})
    assert "reasoning_content" not in found
    jsonschema.validate(json.loads(found["content"]), SCHEMA)
