"""llama.cpp's own endpoints: its fields, its shapes."""

from __future__ import annotations

import json

import httpx
import pytest

from foretoken.engine.engine import Engine
from foretoken.types import Request, SamplingParams

GREEDY = SamplingParams(temperature=0)
PROMPT = "The river runs"


def plain(engine: Engine, prompt: object, n: int) -> str:
    return engine.complete(Request(prompt, GREEDY, max_tokens=n))  # type: ignore[arg-type]


def test_completion(http: httpx.Client, engine: Engine) -> None:
    answer = http.post("/completion", json={"prompt": PROMPT, "n_predict": 12, "temperature": 0}).json()
    assert answer["content"] == plain(engine, PROMPT, 12)
    assert answer["stop"] is True
    assert answer["stop_type"] == "limit"
    assert answer["tokens_predicted"] == answer["timings"]["predicted_n"] == 12
    assert answer["prompt"] == PROMPT
    assert answer["generation_settings"]["n_predict"] == 12
    assert {"drafted", "accepted", "replayed", "drafters"} <= set(answer["usage"]["speculation"])


def test_completion_does_not_need_a_content_type(http: httpx.Client, engine: Engine) -> None:
    body = json.dumps({"prompt": PROMPT, "n_predict": 4, "temperature": 0})
    headers = {"content-type": "application/x-www-form-urlencoded"}
    assert http.post("/completion", content=body, headers=headers).json()["content"] == plain(engine, PROMPT, 4)


def test_completion_stream(http: httpx.Client, engine: Engine) -> None:
    body = {"prompt": PROMPT, "n_predict": 12, "temperature": 0, "stream": True}
    with http.stream("POST", "/completion", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]
    assert "".join(event["content"] for event in events) == plain(engine, PROMPT, 12)
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert sum(len(event["tokens"]) for event in events) == 12


def test_prompts_in_every_shape(http: httpx.Client, engine: Engine) -> None:
    tokens = engine.tokenize(PROMPT)
    expected = plain(engine, PROMPT, 6)
    asked = {"n_predict": 6, "temperature": 0}
    for prompt in (tokens, [*tokens[:-1], tokens[-1]], {"prompt_string": PROMPT}):
        assert http.post("/completion", json={"prompt": prompt, **asked}).json()["content"] == expected
    several = http.post("/completion", json={"prompt": [PROMPT, tokens, [PROMPT]], **asked}).json()
    assert [one["content"] for one in several] == [expected] * 3
    assert [one["index"] for one in several] == [0, 1, 2]


def test_mixed_prompt_of_text_and_tokens(http: httpx.Client, engine: Engine) -> None:
    tokens = [*engine.tokenize("The river"), 65]
    answer = http.post("/completion", json={"prompt": ["The river", 65], "n_predict": 6, "temperature": 0}).json()
    assert answer["content"] == plain(engine, tokens, 6)


def test_stop_word_and_probabilities(http: httpx.Client, engine: Engine) -> None:
    text = plain(engine, PROMPT, 20)
    body = {
        "prompt": PROMPT,
        "n_predict": 20,
        "temperature": 0,
        "stop": [text[6:9]],
        "n_probs": 2,
        "return_tokens": True,
    }
    answer = http.post("/completion", json=body).json()
    assert answer["stop_type"] == "word"
    assert answer["stopping_word"] == text[6:9]
    assert answer["content"] == text[: text.index(text[6:9])]
    assert len(answer["completion_probabilities"]) == len(answer["tokens"]) == answer["tokens_predicted"]
    assert all(len(entry["top_logprobs"]) == 2 for entry in answer["completion_probabilities"])


def test_response_fields(http: httpx.Client) -> None:
    fields = ["content", "timings/predicted_n", "generation_settings/n_predict", "nothing/here"]
    body = {"prompt": PROMPT, "n_predict": 3, "response_fields": fields}
    answer = http.post("/completion", json=body).json()
    assert set(answer) == set(fields[:3])
    assert answer["timings/predicted_n"] == 3


def test_no_tokens_wanted_only_reads_the_prompt(http: httpx.Client) -> None:
    answer = http.post("/completion", json={"prompt": PROMPT, "n_predict": 0}).json()
    assert answer["content"] == ""
    assert answer["tokens_predicted"] == 0


def test_infill_as_editors_ask(http: httpx.Client, engine: Engine) -> None:
    """The body of llama.vim, field by field."""
    body = {
        "id_slot": 0, "input_prefix": "def f(x):\n", "input_suffix": "\n    return y\n", "prompt": "    y =",
        "input_extra": [{"filename": "a.py", "text": "x = 1\n"}], "n_predict": 16, "stop": [], "n_indent": 0,
        "top_k": 40, "top_p": 0.99, "samplers": ["top_k", "top_p", "infill"], "stream": False, "cache_prompt": True,
        "t_max_prompt_ms": 500, "t_max_predict_ms": 1000, "seed": 1,
        "response_fields": ["content", "timings/prompt_n", "truncated", "tokens_cached"],
    }  # fmt: skip
    answer = http.post("/infill", json=body)
    assert answer.status_code == 200, answer.text
    assert {"content", "timings/prompt_n", "truncated"} <= set(answer.json())
    warm = {"input_prefix": "", "input_suffix": "", "input_extra": body["input_extra"], "prompt": "", "n_predict": 0,
            "temperature": 0.0, "samplers": [], "stream": False, "response_fields": [""]}  # fmt: skip
    warmed = http.post("/infill", json=warm)
    assert (warmed.status_code, warmed.json()) == (200, {})


def test_infill_prompt_has_llama_cpps_order(http: httpx.Client, engine: Engine) -> None:
    body = {"input_prefix": "before", "input_suffix": "after", "prompt": " mid", "n_predict": 1,
            "input_extra": [{"filename": "a.py", "text": "x = 1"}]}  # fmt: skip
    prompt = http.post("/infill", json=body).json()["prompt"]
    repository, separator = engine.vocabulary.fim_repository, engine.vocabulary.fim_separator
    assert repository is not None
    start = engine.detokenize([repository]) + "myproject\n"
    if separator is not None:
        mark = engine.detokenize([separator])
        start += f"{mark}a.py\nx = 1{mark}filename\n"
    else:
        start += "\n\n--- snippet ---\n\nx = 1"
    assert prompt == start + "<|fim_prefix|>before mid<|fim_suffix|>after<|fim_middle|>"


def test_long_infill_keeps_what_is_near_the_gap(http: httpx.Client) -> None:
    body = {"input_prefix": "far " * 2000 + "near", "input_suffix": "close" + " away" * 2000, "n_predict": 4}
    answer = http.post("/infill", json=body)
    assert answer.status_code == 200, answer.text
    assert "near<|fim_suffix|>close" in answer.json()["prompt"]


def test_tokenize_and_back(http: httpx.Client, engine: Engine) -> None:
    text = "naïve río <|im_end|> ☃"
    tokens = http.post("/tokenize", json={"content": text}).json()["tokens"]
    assert tokens == engine.vocabulary.tokenize(text, add_special=False)
    assert http.post("/detokenize", json={"tokens": tokens}).json()["content"] == text
    plain_tokens = http.post("/tokenize", json={"content": text, "parse_special": False}).json()["tokens"]
    assert len(plain_tokens) > len(tokens)
    pieces = http.post("/tokenize", json={"content": "☃", "with_pieces": True}).json()["tokens"]
    data = b"".join(p["piece"].encode() if isinstance(p["piece"], str) else bytes(p["piece"]) for p in pieces)
    assert data.decode() == "☃"


def test_the_tokenizer_under_vllms_names(http: httpx.Client, engine: Engine) -> None:
    text = "naïve río <|im_end|> ☃"
    tokens = http.post("/tokenize", json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    assert tokens == engine.vocabulary.tokenize(text, add_special=False)
    assert http.post("/detokenize", json={"tokens": tokens}).json()["prompt"] == text
    info = http.get("/tokenizer_info").json()
    assert info["eos_token"] == "<|im_end|>"
    assert "messages" in info["chat_template"]


def test_apply_template(http: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}
    prompt = http.post("/apply-template", json=body).json()["prompt"]
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"


def test_a_conversation_that_ends_with_the_assistant_is_continued(http: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well,"}]}
    prompt = http.post("/apply-template", json=body).json()["prompt"]
    assert prompt.endswith("<|im_start|>assistant\nWell,")


def test_props_health_slots_metrics(http: httpx.Client) -> None:
    props = http.get("/props").json()
    assert props["total_slots"] == 2
    assert props["default_generation_settings"]["n_ctx"] == 512
    assert "messages" in props["chat_template"]
    assert http.get("/health").json()["status"] == "ok"
    slots = http.get("/slots").json()
    assert [slot["id"] for slot in slots] == [0, 1]
    http.post("/completion", json={"prompt": PROMPT, "n_predict": 2})
    lines = http.get("/metrics").text.splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
    assert float(values["llamacpp:tokens_predicted_total"]) >= 2
    assert float(values["llamacpp:prompt_tokens_total"]) > 0
    assert values["llamacpp:requests_processing"] == "0.0"
    assert float(values["llamacpp:n_decode_total"]) > 0
    assert values["foretoken:worker_up"] == "1.0"


def test_request_id_comes_back(http: httpx.Client) -> None:
    assert http.get("/health", headers={"x-request-id": "abc-1"}).headers["x-request-id"] == "abc-1"
    assert http.get("/health", headers={"x-request-id": "bad id"}).headers["x-request-id"] != "bad id"


def test_unknown_fields_are_ignored_and_named(http: httpx.Client) -> None:
    answer = http.post("/completion", json={"prompt": PROMPT, "n_predict": 1, "magic": 1, "model": "x"})
    assert answer.status_code == 200
    assert answer.headers["x-ignored-fields"] == "magic"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {}),
        ("/completion", {"prompt": []}),
        ("/completion", {"prompt": [[]]}),
        ("/completion", {"prompt": [1.5]}),
        ("/completion", {"prompt": [-1]}),
        ("/completion", {"prompt": [10**9]}),
        ("/completion", {"prompt": 5}),
        ("/completion", {"prompt": "x", "lora": [{"id": 0, "scale": 1}]}),
        ("/completion", {"prompt": "x", "n_predict": 2**40}),
        ("/completion", {"prompt": "x", "speculative.n_max": -1}),
        ("/completion", {"prompt": ["x"] * 200}),
        ("/infill", {"input_prefix": 3}),
        ("/tokenize", {"content": {"a": 1}}),
        ("/detokenize", {"tokens": [10**8]}),
        ("/detokenize", {"tokens": "x"}),
        ("/apply-template", {"messages": "hi"}),
        ("/v1/completions", {"prompt": "x", "echo": True, "logprobs": 1, "stream": True}),
    ],
)
def test_bad_bodies_are_the_clients_fault(http: httpx.Client, path: str, body: object) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["message"]


def test_no_such_endpoint_and_wrong_method(http: httpx.Client) -> None:
    assert http.get("/nowhere").json()["error"]["code"] == 404
    assert http.get("/completion").json()["error"]["code"] == 405
