"""What llama.vim asked and was told, asked again."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.running import TIMEOUT, RunningServer

RECORDED: list[dict[str, Any]] = json.loads(Path(__file__).with_name("llama_vim.json").read_text(encoding="utf-8"))[
    "exchanges"
]


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_a_recorded_exchange(server: RunningServer, number: int) -> None:
    """The same fields of the same kinds: the plugin reads them by their names, slashes and all."""
    recorded = RECORDED[number]
    asked, told = recorded["request"], recorded["response"]
    # The plugin sends "Bearer" with nothing behind it, which httpx is too polite for.
    wire = HTTPConnection(server.url.removeprefix("http://"), timeout=TIMEOUT)
    wire.request("POST", recorded["path"], json.dumps(asked), recorded["headers"])
    answer = wire.getresponse()
    assert answer.status == recorded["status"] == 200
    found = json.loads(answer.read())
    wire.close()
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in told.items()}
    if found:
        assert found["timings/predicted_n"] <= asked["n_predict"]
        assert answer.getheader("x-ignored-fields") is None


@pytest.mark.parametrize("number", [number for number, one in enumerate(RECORDED) if one["request"]["n_predict"]])
def test_the_text_does_not_depend_on_speculation(http: httpx.Client, number: int) -> None:
    # Without the editor's samplers: where nothing is likely, as in a random model, they end the answer at once.
    asked = {**RECORDED[number]["request"], "temperature": 0, "t_max_predict_ms": 0, "response_fields": []}
    del asked["samplers"]
    answers = [http.post("/infill", json={**asked, "speculative.type": kind}).json() for kind in ("none", "auto")]
    assert answers[0]["content"] == answers[1]["content"]
    prompt = answers[0]["prompt"]
    assert prompt.rindex(asked["input_prefix"] + asked["prompt"]) < prompt.rindex(asked["input_suffix"])
    assert all(extra["text"] in prompt for extra in asked["input_extra"])


def test_a_suggestion_ends_where_the_indentation_does(http: httpx.Client) -> None:
    asked = next(one["request"] for one in RECORDED if one["request"].get("n_indent"))
    body = {**asked, "temperature": 0, "n_predict": 48, "response_fields": ["content"], "t_max_predict_ms": 0}
    del body["samplers"]
    whole = http.post("/infill", json={**body, "n_indent": 0}).json()["content"]
    cut = http.post("/infill", json=body).json()["content"]
    assert whole.startswith(cut)
    later = [line for line in cut.split("\n")[1:] if line.strip()]
    assert all(len(line) - len(line.lstrip()) >= asked["n_indent"] for line in later)


def test_what_must_not_end_early_does_not(http: httpx.Client) -> None:
    """The editors' sampler ends an answer where nothing is likely; a form, or `ignore_eos`, has the last word."""
    body = {"input_prefix": "a", "samplers": ["infill"], "n_predict": 12, "logit_bias": [["<|endoftext|>", 90]]}
    assert http.post("/infill", json=body).json()["content"] == ""
    assert http.post("/infill", json={**body, "ignore_eos": True}).json()["tokens_predicted"] == 12
    assert len(http.post("/infill", json={**body, "regex": "[ab]{5}"}).json()["content"]) == 5


ASKED_BY_VSCODE = [
    # The fields that llama.vscode 0.0.63 was seen to send, with shorter texts; the last as its versions of 2025 did.
    (
        "/infill",
        {"id_slot": 0, "input_prefix": "def f():\n", "input_suffix": "\n",
         "input_extra": [{"text": "x = 1", "time": 1794736466717, "filename": "a.py"}], "prompt": "    ",
         "n_predict": 16, "n_cmpl": 3, "top_k": 40, "top_p": 0.99, "stream": False,
         "samplers": ["top_k", "top_p", "infill"], "cache_prompt": True, "n_indent": 4, "t_max_prompt_ms": 500,
         "t_max_predict_ms": 500, "model": "google/gemini-2.5-flash"},
    ),
    (
        "/infill",
        {"id_slot": 0, "input_prefix": "", "input_suffix": "", "input_extra": [], "prompt": "", "n_predict": 0,
         "samplers": [], "cache_prompt": True, "t_max_prompt_ms": 500, "t_max_predict_ms": 1},
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": "Code."}, {"role": "user", "content": "Rename it."}],
         "stream": False, "cache_prompt": True, "temperature": 0.8, "top_p": 0.95, "model": "google/gemini-2.5-flash"},
    ),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "system", "content": "Code."}, {"role": "user", "content": "Rename it."}],
         "stream": False, "cache_prompt": True, "samplers": "edkypmxt", "temperature": 0.8, "dynatemp_range": 0,
         "dynatemp_exponent": 1, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "typical_p": 1, "xtc_probability": 0,
         "xtc_threshold": 0.1, "repeat_last_n": 64, "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0,
         "dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1, "n_predict": 8,
         "timings_per_token": False},
    ),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(ASKED_BY_VSCODE)))
def test_requests_as_llama_vscode_makes_them(http: httpx.Client, number: int) -> None:
    path, body = ASKED_BY_VSCODE[number]
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert "x-ignored-fields" not in answer.headers
    if path == "/infill":
        found = answer.json()
        answers = found if "n_cmpl" in body else [found]
        assert len(answers) == body.get("n_cmpl", 1)
        for one in answers:
            assert {"content", "generation_settings", "tokens_cached", "truncated", "timings"} <= set(one)
    else:
        assert answer.json()["choices"][0]["message"]["role"] == "assistant"


LIST_FILES = {"type": "function", "function": {"name": "list_directory", "parameters": {"type": "object"}}}


def test_a_turn_of_llama_vscodes_agent(http: httpx.Client) -> None:
    """It asks how much there is room for, how long its prompt is, and then for an answer that fits."""
    (model,) = http.get("/v1/models").json()["data"]
    assert isinstance(model["meta"], dict)
    n_ctx = http.get("/props").json()["default_generation_settings"]["n_ctx"]
    messages = [{"role": "system", "content": "Be an agent."}, {"role": "user", "content": "Say hello."}]
    prompt = http.post("/apply-template", json={"messages": messages, "model": "any"}).json()["prompt"]
    asked = {"content": prompt, "add_special": False, "parse_special": True}
    n_prompt = len(http.post("/tokenize", json=asked).json()["tokens"])
    body = {"messages": messages, "stream": True, "model": "any", "tools": [LIST_FILES], "tool_choice": "auto",
            "max_tokens": min(n_ctx // 4, n_ctx - n_prompt - 256)}  # fmt: skip
    with http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert "x-ignored-fields" not in answer.headers
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2][6:])["choices"][0]["finish_reason"] in ("stop", "length", "tool_calls")


def test_a_turn_of_continues_command_line(http: httpx.Client) -> None:
    """Its llama.cpp provider asks at the base address itself, with an empty key."""
    body = {"model": "any", "messages": [{"role": "user", "content": "Hello"}], "stream": True, "tools": [LIST_FILES],
            "stream_options": {"include_usage": True}, "max_tokens": 8}  # fmt: skip
    with http.stream("POST", "/chat/completions", json=body, headers={"Authorization": "Bearer"}) as answer:
        assert answer.status_code == 200
        assert "x-ignored-fields" not in answer.headers
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2][6:])["usage"]["completion_tokens"] <= 8


def test_a_stream_as_continue_reads_it(http: httpx.Client) -> None:
    """The editors' llama.cpp provider posts to /completion and joins the `content` of every event."""
    body = {"model": "any", "prompt": "The river", "stream": True, "n_predict": 6, "temperature": 0, "stop": ["\n\n"]}
    with http.stream("POST", "/completion", json=body, headers={"Authorization": "Bearer undefined"}) as answer:
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    whole = http.post("/completion", json={**body, "stream": False}).json()
    assert "".join(event["content"] for event in events) == whole["content"]
