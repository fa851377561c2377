"""Tools through the official client, sync and async, on the embedded model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessage

from tests.server.running import RunningServer
from tests.server.tools.conftest import PATIENCE


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS = [
    tool("get_weather", "Get the current weather in a city.", city="string"),
    tool("add", "Add two numbers.", a="integer", b="integer"),
]
STRICT = [{"type": "function", "function": {**one["function"], "strict": True}} for one in TOOLS]
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
SUM = [{"role": "user", "content": "What is 12 + 30?"}]
HELLO = [{"role": "user", "content": "Hello, how are you?"}]
ENDS = ["<|im_end|>", "<|endoftext|>"]
Calls = list[tuple[str, dict[str, Any]]]


def asked(messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "any", "messages": messages, "tools": TOOLS, "temperature": 0, "max_tokens": 80, **fields}


def calls(message: ChatCompletionMessage) -> Calls:
    return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]  # type: ignore[union-attr]


def test_a_call_its_result_and_the_answer(client: openai.OpenAI) -> None:
    first = client.chat.completions.create(**asked(WEATHER)).choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.content is None
    assert calls(first.message) == [("get_weather", {"city": "Paris"})]
    assert first.message.tool_calls
    result = {
        "role": "tool",
        "tool_call_id": first.message.tool_calls[0].id,
        "content": '{"city": "Paris", "temperature": 21}',
    }
    second = client.chat.completions.create(**asked([*WEATHER, first.message, result])).choices[0]
    assert second.finish_reason == "stop"
    assert "21" in (second.message.content or "")
    assert not second.message.tool_calls


def test_a_stream_has_openais_deltas(client: openai.OpenAI) -> None:
    whole = client.chat.completions.create(**asked(SUM)).choices[0].message
    # Without drafts every token is a piece of its own; with them as many at once as were guessed right.
    plainly = asked(SUM, stream=True, extra_body={"speculative": {"type": "none"}})
    chunks = [chunk.choices[0] for chunk in client.chat.completions.create(**plainly)]
    pieces = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
    head = pieces[0]
    assert head.id
    assert (head.index, head.type) == (0, "function")
    assert head.function is not None
    assert (head.function.name, head.function.arguments) == ("add", "")
    assert all((piece.index, piece.id, piece.type) == (0, None, None) for piece in pieces[1:])
    assert len(pieces) > 3
    text = "".join(piece.function.arguments or "" for piece in pieces if piece.function)
    assert [("add", json.loads(text))] == calls(whole)
    assert not any(chunk.delta.content for chunk in chunks)
    assert [chunk.finish_reason for chunk in chunks if chunk.finish_reason] == ["tool_calls"]


def test_the_clients_own_way_to_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(**asked(SUM, tools=STRICT)) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion().choices[0]
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert calls(final.message) == [("add", {"a": 12, "b": 30})]


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("required", {"add", "get_weather"}),
        ({"type": "function", "function": {"name": "add"}}, {"add"}),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "add"}}]},
            },
            {"add"},
        ),
    ],
    ids=["required", "named", "allowed"],
)
def test_a_call_that_must_come(client: openai.OpenAI, choice: Any, names: set[str]) -> None:
    answer = client.chat.completions.create(**asked(HELLO, tool_choice=choice)).choices[0]
    assert answer.finish_reason == "tool_calls"
    assert {name for name, _ in calls(answer.message)} <= names
    for name, arguments in calls(answer.message):
        assert set(arguments) == ({"city"} if name == "get_weather" else {"a", "b"})


def test_no_call_where_none_is_wanted(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**asked(WEATHER, tool_choice="none")).choices[0]
    assert not answer.message.tool_calls
    assert answer.message.content


def test_several_calls_and_what_is_cut_off(client: openai.OpenAI) -> None:
    """The model cannot end, so it goes on calling; the last call is cut, and is text."""
    fields = asked(WEATHER, tool_choice="required", extra_body={"logit_bias": [[end, False] for end in ENDS]})
    answer = client.chat.completions.create(**fields).choices[0]
    assert answer.finish_reason == "length"
    found = calls(answer.message)
    assert len(found) >= 2
    assert answer.message.tool_calls
    assert len({call.id for call in answer.message.tool_calls}) == len(found)
    said = ""
    told: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(**fields, stream=True):
        delta = chunk.choices[0].delta
        said += delta.content or ""
        for call in delta.tool_calls or []:
            assert call.function is not None
            told.setdefault(call.index, [call.function.name or ""]).append(call.function.arguments or "")
    assert said == (answer.message.content or "")
    assert list(told) == list(range(len(told)))
    assert [(name, json.loads("".join(pieces))) for name, *pieces in list(told.values())[: len(found)]] == found


def test_one_call_where_several_are_not_wanted(client: openai.OpenAI) -> None:
    fields = asked(WEATHER, tool_choice="required", parallel_tool_calls=False)
    answer = client.chat.completions.create(**fields, extra_body={"logit_bias": [["<|im_end|>", -100]]}).choices[0]
    assert (answer.finish_reason, len(calls(answer.message))) == ("tool_calls", 1)


def test_strict_tools_leave_text_free(client: openai.OpenAI) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": 12, "b": 30}'}}
    history = [
        *SUM,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "42"},
    ]
    free, strict = (
        client.chat.completions.create(**asked(history, tools=tools)).choices[0] for tools in (TOOLS, STRICT)
    )
    assert "42" in (free.message.content or "")
    assert (strict.message.content, strict.finish_reason) == (free.message.content, free.finish_reason)


def test_strict_tools(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(**asked(SUM, tools=STRICT)).choices[0]
    assert calls(answer.message) == [("add", {"a": 12, "b": 30})]


def test_tools_beside_a_format_of_the_answer(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"greeting": {"type": "string"}}, "required": ["greeting"]}
    format = {"type": "json_schema", "json_schema": {"name": "greeting", "schema": schema}}
    said = client.chat.completions.create(**asked(HELLO, response_format=format)).choices[0].message
    assert calls(said) or isinstance(json.loads(said.content or "")["greeting"], str)
    called = client.chat.completions.create(**asked(SUM, response_format=format)).choices[0].message
    assert calls(called) == [("add", {"a": 12, "b": 30})]
    with pytest.raises(openai.BadRequestError, match="schema"):
        client.chat.completions.create(**asked(HELLO), extra_body={"regex": "a+"})


def test_a_schema_that_cannot_be_kept_is_refused(client: openai.OpenAI) -> None:
    broken = tool("f", "", x="frog")
    broken["function"]["strict"] = True
    with pytest.raises(openai.BadRequestError, match=r"the tools cannot be used: .*frog") as caught:
        client.chat.completions.create(**asked(HELLO, tools=[broken]))
    assert "lark" not in str(caught.value)


@pytest.mark.parametrize("stream", [False, True])
def test_every_token_has_its_probability(client: openai.OpenAI, stream: bool) -> None:
    fields = asked(SUM, logprobs=True, tool_choice="required")
    if stream:
        chunks = list(client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True}))
        found = [
            entry for chunk in chunks for one in chunk.choices if one.logprobs for entry in one.logprobs.content or []
        ]
        usage = chunks[-1].usage
    else:
        answer = client.chat.completions.create(**fields)
        assert answer.choices[0].logprobs is not None
        found = answer.choices[0].logprobs.content or []
        usage = answer.usage
    text = "".join(entry.token for entry in found)
    assert text == '<tool_call>\n{"name": "add", "arguments": {"a": 12, "b": 30}}\n</tool_call>'
    assert usage is not None
    assert usage.completion_tokens == len(found) + 1


@pytest.mark.parametrize(
    "fields", [{}, {"tool_choice": "required"}, {"tools": STRICT}], ids=["auto", "required", "strict"]
)
def test_speculation_changes_no_call(client: openai.OpenAI, fields: dict[str, Any]) -> None:
    answers = [
        client.chat.completions.create(**asked(SUM, **fields), extra_body={"speculative": {"type": kind}})
        for kind in ("none", "auto")
    ]
    assert calls(answers[0].choices[0].message) == calls(answers[1].choices[0].message)
    assert len({answer.usage.completion_tokens for answer in answers if answer.usage}) == 1


async def _several(url: str) -> tuple[list[Calls], Calls]:
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=PATIENCE) as client:
        ways = [asked(SUM), asked(SUM, tools=STRICT), asked(SUM, tool_choice="required"), asked(WEATHER)]
        answers = await asyncio.gather(*(client.chat.completions.create(**way) for way in ways))
        name, text = "", ""
        async for chunk in await client.chat.completions.create(**asked(SUM, tools=STRICT), stream=True):
            for call in chunk.choices[0].delta.tool_calls or []:
                assert call.function is not None
                name += call.function.name or ""
                text += call.function.arguments or ""
        return [calls(answer.choices[0].message) for answer in answers], [(name, json.loads(text))]


def test_the_async_client(mini: RunningServer) -> None:
    answers, streamed = asyncio.run(_several(mini.url))
    assert answers == [[("add", {"a": 12, "b": 30})]] * 3 + [[("get_weather", {"city": "Paris"})]]
    assert streamed == [("add", {"a": 12, "b": 30})]
