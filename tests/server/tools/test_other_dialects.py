"""The same tools and schemas in the other two dialects, through their official clients, on the embedded model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.server.running import RunningServer
from tests.server.tools.conftest import PATIENCE
from tests.server.tools.test_client import ENDS, HELLO, SUM, TOOLS, WEATHER, Calls

FUNCTIONS: list[Any] = [{"type": "function", **one["function"]} for one in TOOLS]
BLOCKS: list[Any] = [
    {"name": one["name"], "description": one["description"], "input_schema": one["parameters"]} for one in FUNCTIONS
]
STRICT: list[Any] = [{**one, "strict": True} for one in BLOCKS]
GREEDY = {"temperature": 0}
CALLING_ON = {**GREEDY, "logit_bias": [[end, False] for end in ENDS]}
"""The model cannot end, so it goes on calling."""
PARIS, FORTY_TWO = ("get_weather", {"city": "Paris"}), ("add", {"a": 12, "b": 30})
TOLD = '{"city": "Paris", "temperature": 21}'


@pytest.fixture
def claude(mini: RunningServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=mini.url, api_key="none", timeout=PATIENCE, max_retries=0) as client:
        yield client


def message(messages: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "any", "messages": messages, "tools": BLOCKS, "max_tokens": 80, "extra_body": GREEDY, **fields}


def used(answer: anthropic.types.Message) -> Calls:
    return [(block.name, dict(block.input)) for block in answer.content if block.type == "tool_use"]


def text_of(answer: anthropic.types.Message) -> str:
    return "".join(block.text for block in answer.content if block.type == "text")


def test_claude_a_call_its_result_and_the_answer(claude: anthropic.Anthropic) -> None:
    first = claude.messages.create(**message(WEATHER))
    assert first.stop_reason == "tool_use"
    assert used(first) == [PARIS]
    call = first.content[-1]
    assert call.type == "tool_use"
    result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": TOLD}]}
    history = [*WEATHER, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second = claude.messages.create(**message(history))
    assert second.stop_reason == "end_turn"
    assert "21" in text_of(second)
    assert not used(second)


def test_claude_streams_the_same_call(claude: anthropic.Anthropic) -> None:
    whole = claude.messages.create(**message(SUM))
    # Without drafts every token is a piece of its own.
    plainly = message(SUM, stream=True, extra_body={**GREEDY, "speculative": {"type": "none"}})
    events = list(claude.messages.create(**plainly))
    started = [event for event in events if event.type == "content_block_start"]
    assert [event.content_block.type for event in started] == ["tool_use"]
    pieces = [event.delta.partial_json for event in events if event.type == "content_block_delta"]
    assert len(pieces) > 2
    assert ("add", json.loads("".join(pieces))) == FORTY_TWO
    with claude.messages.stream(**message(SUM)) as stream:
        final = stream.get_final_message()
    assert used(final) == used(whole) == [FORTY_TWO]
    assert final.stop_reason == "tool_use"


def test_claude_calls_several_at_once_or_one_alone(claude: anthropic.Anthropic) -> None:
    fields = message(WEATHER, tool_choice={"type": "any"}, extra_body=CALLING_ON)
    several = claude.messages.create(**fields)
    assert len(used(several)) >= 2
    ids = [block.id for block in several.content if block.type == "tool_use"]
    assert len(set(ids)) == len(ids)
    with claude.messages.stream(**fields) as stream:
        final = stream.get_final_message()
    # What was cut off is text in both; a stream that began to call cannot take that back.
    assert used(final)[: len(ids)] == used(several)
    assert text_of(final) == text_of(several)
    one = {"type": "any", "disable_parallel_tool_use": True}
    bias = {**GREEDY, "logit_bias": [["<|im_end|>", -100]]}
    assert len(used(claude.messages.create(**message(WEATHER, tool_choice=one, extra_body=bias)))) == 1


def test_claude_chooses(claude: anthropic.Anthropic) -> None:
    named = {"type": "tool", "name": "add"}
    assert [name for name, _ in used(claude.messages.create(**message(WEATHER, tool_choice=named)))] == ["add"]
    assert not used(claude.messages.create(**message(WEATHER, tool_choice={"type": "none"})))
    assert used(claude.messages.create(**message(SUM, tools=STRICT))) == [FORTY_TWO]
    with pytest.raises(anthropic.BadRequestError, match="rm"):
        claude.messages.create(**message(WEATHER, tool_choice={"type": "tool", "name": "rm"}))


def test_claude_counts_tools_too(claude: anthropic.Anthropic) -> None:
    asked: Any = {"model": "any", "messages": WEATHER}
    with_tools = claude.messages.count_tokens(**asked, tools=BLOCKS).input_tokens
    assert with_tools > claude.messages.count_tokens(**asked).input_tokens
    usage = claude.messages.create(**message(WEATHER, max_tokens=1)).usage
    assert with_tools == usage.input_tokens + (usage.cache_read_input_tokens or 0)


class Greeting(BaseModel):
    """What an answer must look like."""

    greeting: str
    times: int


SCHEMA = {**Greeting.model_json_schema(), "additionalProperties": False}


def test_claude_keeps_to_a_schema(claude: anthropic.Anthropic) -> None:
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    asked: Any = {"model": "any", "messages": HELLO, "max_tokens": 200, "extra_body": {**GREEDY, "output_config": form}}
    Greeting.model_validate_json(text_of(claude.messages.create(**asked)))


def test_claude_async(mini: RunningServer) -> None:
    async def main() -> list[Calls]:
        async with anthropic.AsyncAnthropic(base_url=mini.url, api_key="none", timeout=PATIENCE) as client:
            asked = [client.messages.create(**message(one)) for one in (SUM, WEATHER)]
            answers = list(await asyncio.gather(*asked))
            async with client.messages.stream(**message(SUM)) as stream:
                answers.append(await stream.get_final_message())
            return [used(answer) for answer in answers]

    assert asyncio.run(main()) == [[FORTY_TWO], [PARIS], [FORTY_TWO]]


def response(given: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "any", "input": given, "tools": FUNCTIONS, "temperature": 0, "max_output_tokens": 80, **fields}


def called(answer: Any) -> Calls:
    return [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]


def test_responses_a_call_its_result_and_the_answer(client: openai.OpenAI) -> None:
    first = client.responses.create(**response(WEATHER))
    assert first.status == "completed"
    assert called(first) == [PARIS]
    call: Any = first.output[-1]
    result = [{"type": "function_call_output", "call_id": call.call_id, "output": TOLD}]
    kept = client.responses.create(**response(result, previous_response_id=first.id))
    assert "21" in kept.output_text
    sent = client.responses.create(**response([*WEATHER, *first.output, *result], store=False))
    assert sent.output_text == kept.output_text
    items = [item.type for item in client.responses.input_items.list(kept.id, order="asc")]
    assert items == ["message", "function_call", "function_call_output"]


def test_responses_stream_the_same_call(client: openai.OpenAI) -> None:
    events = list(client.responses.create(**response(SUM), stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:3] == ["created", "in_progress", "output_item.added"]
    assert set(kinds[3:-3]) == {"function_call_arguments.delta"}
    assert kinds[-3:] == ["function_call_arguments.done", "output_item.done", "completed"]
    assert "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta") == json.dumps(
        FORTY_TWO[1]
    )
    with client.responses.stream(**response(SUM)) as stream:
        assert called(stream.get_final_response()) == [FORTY_TWO]


def test_responses_several_one_or_none(client: openai.OpenAI) -> None:
    several = client.responses.create(**response(WEATHER, tool_choice="required"), extra_body=CALLING_ON)
    assert len(called(several)) >= 2
    assert several.status == "incomplete"
    named = client.responses.create(**response(WEATHER, tool_choice={"type": "function", "name": "add"}))
    assert [name for name, _ in called(named)] == ["add"]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}
    assert [name for name, _ in called(client.responses.create(**response(WEATHER, tool_choice=allowed)))] == ["add"]
    assert not called(client.responses.create(**response(WEATHER, tool_choice="none")))


def test_responses_parse_a_schema(client: openai.OpenAI) -> None:
    asked: Any = {"model": "any", "input": HELLO, "temperature": 0, "max_output_tokens": 200}
    parsed = client.responses.parse(**asked, text_format=Greeting)
    assert isinstance(parsed.output_parsed, Greeting)
    loose = client.responses.create(**asked, text={"format": {"type": "json_object"}})
    assert isinstance(json.loads(loose.output_text), dict)
    bad: Any = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "no such type"}}}
    with pytest.raises(openai.BadRequestError, match="schema"):
        client.responses.create(**asked, text=bad)


def test_responses_async(mini: RunningServer) -> None:
    async def main() -> list[Calls]:
        async with openai.AsyncOpenAI(base_url=f"{mini.url}/v1", api_key="none", timeout=PATIENCE) as client:
            answers = list(await asyncio.gather(*(client.responses.create(**response(one)) for one in (SUM, WEATHER))))
            async with client.responses.stream(**response(SUM)) as stream:
                answers.append(await stream.get_final_response())
            parsed = await client.responses.parse(
                model="any",
                input=HELLO,
                max_output_tokens=200,
                text_format=Greeting,  # type: ignore[arg-type]
            )
            assert parsed.output_parsed
            return [called(answer) for answer in answers]

    assert asyncio.run(main()) == [[FORTY_TWO], [PARIS], [FORTY_TWO]]


def test_real_text_does_not_depend_on_speculation(claude: anthropic.Anthropic, client: openai.OpenAI) -> None:
    code: Any = [{"role": "user", "content": "Write a quicksort in Python."}]
    texts = []
    for kind in ("none", "auto"):
        extra = {**GREEDY, "speculative": {"type": kind}}
        texts.append(text_of(claude.messages.create(model="any", messages=code, max_tokens=120, extra_body=extra)))
        asked = client.responses.create(model="any", input=code, max_output_tokens=120, extra_body=extra)
        texts.append(asked.output_text)
    assert len(texts[0]) > 100
    assert len(set(texts)) == 1
