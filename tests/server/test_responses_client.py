"""OpenAI's Responses through the official client: made, streamed, kept, continued, forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from foretoken.engine.engine import Engine
from foretoken.server.settings import ServerSettings
from tests.server.running import TIMEOUT, RunningServer, running
from tests.server.test_openai_client import CHATML, plain

ASKED: dict[str, Any] = {"model": "any", "input": "What is a river?", "temperature": 0, "max_output_tokens": 24}


def turn(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def test_a_response_says_what_the_engine_says(client: openai.OpenAI, engine: Engine) -> None:
    answer = client.responses.create(**ASKED, metadata={"run": "7"})
    assert answer.output_text == plain(engine, CHATML)
    assert (answer.object, answer.status) == ("response", "incomplete")
    assert answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    assert answer.metadata == {"run": "7"}
    assert answer.usage is not None
    assert answer.usage.output_tokens == 24
    assert answer.usage.input_tokens == len(engine.tokenize(CHATML))


def test_items_and_instructions_become_the_prompt(client: openai.OpenAI, engine: Engine) -> None:
    items: Any = [
        {"role": "developer", "content": "Use no numbers."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        {"role": "user", "content": "What is a river?"},
    ]
    answer = client.responses.create(**{**ASKED, "input": items, "instructions": "Be brief."})
    head = turn("system", "Be brief.\n\nUse no numbers.") + turn("user", "Hi") + turn("assistant", "Hello")
    assert answer.output_text == plain(engine, head + CHATML)


def test_stream_has_numbered_events_in_order(client: openai.OpenAI, engine: Engine) -> None:
    events = list(client.responses.create(**ASKED, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    assert set(kinds[4:-4]) == {"output_text.delta"}
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"]
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    last = events[-1]
    assert last.type == "response.incomplete"
    assert text == last.response.output_text == plain(engine, CHATML)
    assert client.responses.retrieve(last.response.id) == last.response


def test_streaming_helper(client: openai.OpenAI, engine: Engine) -> None:
    # The helper insists on an answer that ended by itself.
    whole = plain(engine, CHATML)
    with client.responses.stream(**ASKED, extra_body={"stop": [whole[8:12]]}) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == whole[: whole.index(whole[8:12])]
    assert final.status == "completed"


def test_a_conversation_is_continued(client: openai.OpenAI, engine: Engine) -> None:
    first = client.responses.create(**ASKED, instructions="Be brief.")
    second = client.responses.create(**{**ASKED, "input": "And a sea?"}, previous_response_id=first.id)
    third = client.responses.create(**{**ASKED, "input": "And a lake?"}, previous_response_id=second.id)
    # Instructions are not carried over, as OpenAI has it.
    said = turn("user", "What is a river?") + turn("assistant", first.output_text) + turn("user", "And a sea?")
    assert second.output_text == plain(engine, said + "<|im_start|>assistant\n")
    said += turn("assistant", second.output_text) + turn("user", "And a lake?")
    assert third.output_text == plain(engine, said + "<|im_start|>assistant\n")
    assert third.previous_response_id == second.id
    items = client.responses.input_items.list(third.id, order="asc").data
    roles = [getattr(item, "role", None) for item in items]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    newest = client.responses.input_items.list(third.id, limit=2)
    assert [item.id for item in newest.data] == [item.id for item in items[::-1][:2]]
    assert len(list(newest)) == 5


def test_what_is_deleted_is_gone(client: openai.OpenAI) -> None:
    first = client.responses.create(**ASKED)
    second = client.responses.create(**ASKED, previous_response_id=first.id)
    assert client.responses.retrieve(first.id).output_text == first.output_text
    client.responses.delete(first.id)
    for again in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            again(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.create(**ASKED, previous_response_id=first.id)
    with pytest.raises(openai.BadRequestError, match="not kept any more"):
        client.responses.create(**ASKED, previous_response_id=second.id)


def test_what_is_not_to_be_stored_is_not(client: openai.OpenAI) -> None:
    answer = client.responses.create(**ASKED, store=False)
    assert answer.model_extra is not None
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(answer.id)


def test_async_client(server: RunningServer, engine: Engine) -> None:
    async def main() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=TIMEOUT) as client:
            whole = await client.responses.create(**ASKED)
            text = ""
            async for event in await client.responses.create(**ASKED, stream=True):
                if event.type == "response.output_text.delta":
                    text += event.delta
            found = await client.responses.retrieve(whole.id)
            await client.responses.delete(whole.id)
            return [whole.output_text, text, found.output_text]

    assert asyncio.run(main()) == [plain(engine, CHATML)] * 3


def test_input_tokens_are_counted(client: openai.OpenAI, engine: Engine) -> None:
    counted = client.responses.input_tokens.count(model="any", input="What is a river?")
    assert counted.input_tokens == len(engine.tokenize(CHATML))


def test_probabilities_of_the_text(client: openai.OpenAI) -> None:
    answer = client.responses.create(**ASKED, include=["message.output_text.logprobs"], top_logprobs=2)
    part: Any = answer.output[0].content[0]  # type: ignore[union-attr]
    assert len(part.logprobs) == 24
    assert all(len(entry.top_logprobs) == 2 for entry in part.logprobs)
    events = list(client.responses.create(**ASKED, stream=True, top_logprobs=2))
    told = [entry for event in events if event.type == "response.output_text.delta" for entry in event.logprobs]
    assert [entry.token for entry in told] == [entry.token for entry in part.logprobs]


def test_the_oldest_turns_are_left_out_when_asked(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": f"{n} " + "the river runs to the sea " * 12} for n in range(12)]
    items.append({"role": "user", "content": "What is a river?"})
    asked = {**ASKED, "input": items}
    with pytest.raises(openai.BadRequestError, match="tokens"):
        client.responses.create(**asked)
    answer = client.responses.create(**asked, truncation="auto")
    assert answer.usage is not None
    assert 256 < answer.usage.input_tokens <= 512 - 24


def test_text_does_not_depend_on_speculation(client: openai.OpenAI) -> None:
    asked = {**ASKED, "input": "one two three one two three one two three one two", "max_output_tokens": 64}
    texts = [
        client.responses.create(**asked, extra_body={"speculative": {"type": kind}}).output_text
        for kind in ("none", "auto")
    ]
    assert texts[0] == texts[1]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"background": True}, "background"),
    ({"tools": [{"type": "web_search"}]}, "web_search"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "reads text"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "previous_response_id"),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "call_id"),
    ({"input": []}, "nothing to answer"),
    ({"tool_choice": "required"}, "no tools"),
    ({"conversation": "conv_1"}, "conversation"),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "reason"), REFUSED, ids=[reason for _, reason in REFUSED])
def test_what_cannot_be_served_says_why(client: openai.OpenAI, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(openai.BadRequestError, match=reason):
        client.responses.create(**{**ASKED, **fields})


def test_keys_do_not_see_each_others_responses_and_a_restart_keeps_them(model_path: Path, tmp_path: Path) -> None:
    settings = ServerSettings(api_keys=("one", "two"), responses_db=str(tmp_path / "kept.db"), grace=2)
    with running(model_path, settings, n_parallel=1) as server:
        first = _client(server, "one").responses.create(**ASKED)
        other = _client(server, "two")
        for ask in (other.responses.retrieve, other.responses.delete, other.responses.input_items.list):
            with pytest.raises(openai.NotFoundError):
                ask(first.id)
        with pytest.raises(openai.NotFoundError):
            other.responses.create(**ASKED, previous_response_id=first.id)
    assert (tmp_path / "kept.db").stat().st_mode & 0o077 == 0
    with running(model_path, settings, n_parallel=1) as server:
        again = _client(server, "one")
        assert again.responses.retrieve(first.id) == first
        assert again.responses.create(**ASKED, previous_response_id=first.id).output_text


def _client(server: RunningServer, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, timeout=TIMEOUT, max_retries=0)


def test_a_server_that_keeps_nothing_says_so(model_path: Path) -> None:
    with running(model_path, ServerSettings(responses_db="none", grace=2), n_parallel=1) as server:
        body = {"input": "Hi", "max_output_tokens": 2}
        assert httpx.post(f"{server.url}/v1/responses", json=body).json()["store"] is False
        for fields in ({"store": True}, {"previous_response_id": "resp_1"}):
            answer = httpx.post(f"{server.url}/v1/responses", json={**body, **fields})
            assert answer.status_code == 501
            assert "--responses-db" in answer.json()["error"]["message"]
