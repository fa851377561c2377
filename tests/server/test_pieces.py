"""The small parts alone: messages, the line, thoughts, cuts, samplers, templates."""

from __future__ import annotations

import asyncio
import json
import logging
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.errors import InvalidRequest, QueueFull
from foretoken.server import logs
from foretoken.server.app import PARTS, routed
from foretoken.server.cuts import Cut, _Cutter
from foretoken.server.fields import GenerationFields
from foretoken.server.gate import Gate
from foretoken.server.reasoning import ReasoningParser
from foretoken.server.record import Record
from foretoken.server.sampling import _drafters, _selected
from foretoken.server.service import Service
from foretoken.server.settings import ServerSettings
from foretoken.types import Chunk, DrafterUsage, Finish, Request, SamplingParams, SpeculationParams, TokenInfo, Usage
from foretoken.worker import messages
from foretoken.worker.backoff import Backoff
from foretoken.worker.messages import Frames
from foretoken.worker.supervisor import Supervisor
from foretoken.worker.tickets import MAX_ATTEMPTS, Line, Ticket


def test_messages_survive_the_pipe() -> None:
    sampling = SamplingParams(seed=3, logit_bias={5: -1.5}, banned=(7,))
    request = Request([1, 2, 3], sampling, stop=("a",), speculation=SpeculationParams(drafters=()))
    config = EngineConfig(ModelConfig(Path("m.gguf")), speculation=SpeculationConfig(options={"suffix": {"n": 3}}))
    orders = [messages.Start(config), messages.Submit.of(request, 0.25), messages.Cancel("x")]
    usage = Usage(3, drafters={"copy": DrafterUsage(accepted_at=(1, 2))})
    reports = [
        messages.Said("x", Chunk(0, "é", (TokenInfo(5, b"\xc3", "copy", -0.5, ((5, -0.5),)),))),
        messages.Ended("x", Finish(0, "stop", usage, "a")),
    ]
    data = b"".join(map(messages.pack, [*orders, *reports]))
    frames = Frames()
    found = [frame for at in range(0, len(data), 7) for frame in frames.feed(data[at : at + 7])]
    read = [messages.read_order(frame) for frame in found[:3]]
    assert read == orders
    assert isinstance(read[1], messages.Submit)
    assert read[1].request == request
    assert [messages.read_report(frame) for frame in found[3:]] == reports


def test_text_does_not_go_to_the_worker() -> None:
    with pytest.raises(TypeError):
        messages.Submit.of(Request("text"), 0.0)


def ticket(name: str, n: int = 1) -> Ticket:
    return Ticket(Request([1], id=name, n=n), lambda event: None)


def test_line_hands_over_two_rounds_and_keeps_the_rest() -> None:
    line = Line(max_waiting=10)
    line.n_slots = 2
    for number in range(7):
        line.add(ticket(str(number)))
    inside = []
    while (next_one := line.next()) is not None:
        inside.append(next_one.request.id)
    assert inside == ["0", "1", "2", "3"]
    assert line.n_waiting == 5


def test_line_is_bounded() -> None:
    line = Line(max_waiting=1)
    line.add(ticket("a"))
    with pytest.raises(QueueFull):
        line.add(ticket("b"))


def test_line_serves_requests_larger_than_all_slots() -> None:
    line = Line(max_waiting=10)
    line.n_slots = 2
    line.add(ticket("big", n=9))
    line.add(ticket("small"))
    assert line.next() is not None
    assert line.next() is None


def test_line_after_a_death() -> None:
    line = Line(max_waiting=10)
    line.n_slots = 2
    for number in range(6):
        line.add(ticket(str(number)))
    for _ in range(MAX_ATTEMPTS - 1):
        while line.next() is not None:
            pass
        running = line.lose()
        assert len(running) == 2
    assert [one.request.id for one in line.waiting] == ["4", "5"]


def test_backoff_doubles_forgets_and_gives_up() -> None:
    backoff = Backoff()
    pauses = []
    for _ in range(30):
        backoff.lived(1.0)
        pauses.append(backoff.pause)
    assert pauses[:3] == [0.25, 0.5, 1.0]
    assert pauses[-1] == 30
    assert not backoff.exhausted
    backoff.lived(60.0)
    assert backoff.pause == 0.25
    for _ in range(4):
        backoff.not_started()
    assert backoff.exhausted


@given(st.integers(1, 12))
def test_thoughts_are_told_apart_however_they_are_cut(size: int) -> None:
    text = "<think>\nFirst <b>this</b>.\n\nThen that.\n</think>\n\nThe answer: 1 < 2.\n"
    parser = ReasoningParser(thinking=False)
    parts = [parser.push(text[at : at + size]) for at in range(0, len(text), size)]
    parts.append(parser.finish())
    assert "".join(part.reasoning for part in parts) == "First <b>this</b>.\n\nThen that."
    assert "".join(part.content for part in parts) == "The answer: 1 < 2.\n"


@given(st.text(alphabet="<think>/ \nab", max_size=40), st.integers(1, 5))
def test_what_is_no_thought_stays_as_it_is(text: str, size: int) -> None:
    if text.lstrip().startswith("<think>"):
        return
    parser = ReasoningParser(thinking=False)
    parts = [parser.push(text[at : at + size]) for at in range(0, len(text), size)] + [parser.finish()]
    assert "".join(part.content for part in parts) == text
    assert not any(part.reasoning for part in parts)


def test_a_thought_that_never_ends() -> None:
    parser = ReasoningParser(thinking=True)
    parts = [parser.push("hm, "), parser.push("let me see"), parser.finish()]
    assert "".join(part.reasoning for part in parts) == "hm, let me see"


@given(st.integers(1, 9))
def test_cut_at_a_lesser_indentation(size: int) -> None:
    text = "    a = 1\n    b = 2\n\n    c = 3\n  d = 4\n    e = 5\n"
    cutter = _Cutter(Cut(n_indent=4))
    out = ""
    for at in range(0, len(text), size):
        out += cutter.pass_on(text[at : at + size])
        if cutter.over:
            break
    assert out == "    a = 1\n    b = 2\n\n    c = 3\n  "


def test_cut_after_time_and_a_line() -> None:
    cutter = _Cutter(Cut(seconds=-1.0))
    assert cutter.pass_on("abc") == "abc"
    assert not cutter.over
    assert cutter.pass_on("d\ne") == "d\ne"
    assert cutter.over


def test_samplers_left_out_are_off() -> None:
    off = _selected(["top_k", "top_p", "infill"], SamplingParams())
    assert off["min_p"] == 0
    assert off["temperature"] == 1
    assert "top_k" not in off
    assert off["infill"]
    assert "temperature" not in _selected([], SamplingParams(temperature=0))
    with pytest.raises(InvalidRequest, match="order"):
        _selected(["top_p", "top_k"], SamplingParams())
    assert _selected("kpi", SamplingParams()) == off
    assert _selected("edkypmxt", SamplingParams()) == {"top_n_sigma": -1.0, "infill": False}
    with pytest.raises(InvalidRequest, match="'z' is not a sampler"):
        _selected("kz", SamplingParams())


def test_drafters_by_name() -> None:
    known = ["copy", "suffix"]
    assert _drafters(None, known) is None
    assert _drafters("auto", known) is None
    assert _drafters("none", known) == ()
    assert _drafters("suffix, copy", known) == ("suffix", "copy")
    with pytest.raises(InvalidRequest, match="copy, suffix"):
        _drafters("eagle", known)


def test_dotted_fields_are_nested_ones() -> None:
    body = GenerationFields.model_validate({"speculative.n_max": 3, "speculative": {"type": "none"}})
    assert body.speculative is not None
    assert (body.speculative.n_max, body.speculative.type) == (3, "none")


def test_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    usage = Usage(20, 4, 10, drafted=8, accepted=6, prompt_ms=16, generation_ms=100)
    record = Record("id-1", "POST", "/completion", status=200, finishes=[Finish(0, "stop", usage)])
    text = record.line()
    assert "prompt eval time = 16.00 ms / 16 tokens (1.00 ms per token, 1000.00 tokens per second)" in text
    assert "draft acceptance rate = 0.75000 (6 accepted / 8 generated)" in text
    entry = logging.LogRecord("foretoken.server", logging.INFO, "", 0, "%s", (text,), None)
    entry.fields = record.fields
    token = logs.request_id.set("id-1")
    try:
        line = json.loads(logs.JsonFormatter().format(entry))
        assert "[id-1]" in logs.PlainFormatter().format(entry)
    finally:
        logs.request_id.reset(token)
    assert line["request_id"] == "id-1"
    assert line["draft_n_accepted"] == 6
    assert "prompt" not in line


def test_what_nobody_foresaw_is_an_error_in_words(caplog: pytest.LogCaptureFixture) -> None:
    service = Service(Supervisor(EngineConfig(ModelConfig(Path("none.gguf")))), ServerSettings())
    app = routed([part.router(service) for part in PARTS])

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("a secret of ours")

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(Gate(app, service)), base_url="http://here"
        ) as client:
            return await client.get("/broken")

    answer = asyncio.run(ask())
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == "the server failed to answer; its log says why"
    assert "a secret of ours" in caplog.text
