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
    asked = {**RECORDED[number]["request"], "temperature": 0, "t_max_predict_ms": 0, "response_fields": []}
    answers = [http.post("/infill", json={**asked, "speculative.type": kind}).json() for kind in ("none", "auto")]
    assert answers[0]["content"] == answers[1]["content"]
    prompt = answers[0]["prompt"]
    assert prompt.rindex(asked["input_prefix"] + asked["prompt"]) < prompt.rindex(asked["input_suffix"])
    assert all(extra["text"] in prompt for extra in asked["input_extra"])


def test_a_suggestion_ends_where_the_indentation_does(http: httpx.Client) -> None:
    asked = next(one["request"] for one in RECORDED if one["request"].get("n_indent"))
    body = {**asked, "temperature": 0, "n_predict": 48, "response_fields": ["content"], "t_max_predict_ms": 0}
    whole = http.post("/infill", json={**body, "n_indent": 0}).json()["content"]
    cut = http.post("/infill", json=body).json()["content"]
    assert whole.startswith(cut)
    later = [line for line in cut.split("\n")[1:] if line.strip()]
    assert all(len(line) - len(line.lstrip()) >= asked["n_indent"] for line in later)
