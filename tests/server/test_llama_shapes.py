"""Every field that llama.cpp's own server answers with, as it was seen to (b1-0c1e570, the same tiny model)."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from foretoken.chat import CHATML, ChatTemplate
from foretoken.server.template_caps import template_caps
from tests.server.running import RunningServer, wait_until

SAMPLING = {
    "seed": int, "temperature": float, "dynatemp_range": float, "dynatemp_exponent": float, "top_k": int,
    "top_p": float, "min_p": float, "top_n_sigma": float, "xtc_probability": float, "xtc_threshold": float,
    "typical_p": float, "repeat_last_n": int, "repeat_penalty": float, "presence_penalty": float,
    "frequency_penalty": float, "dry_multiplier": float, "dry_base": float, "dry_allowed_length": int,
    "dry_penalty_last_n": int, "mirostat": int, "mirostat_tau": float, "mirostat_eta": float,
    "adaptive_target": float, "adaptive_decay": float, "max_tokens": int, "n_predict": int, "n_keep": int,
    "n_discard": int, "ignore_eos": bool, "stream": bool, "n_probs": int, "min_keep": int, "chat_format": str,
    "reasoning_format": str, "reasoning_in_content": bool, "generation_prompt": str, "samplers": list,
    "speculative.types": str, "timings_per_token": bool, "post_sampling_probs": bool, "backend_sampling": bool,
    "lora": list,
}  # fmt: skip
TEXTS = {"stop": list, "logit_bias": list, "grammar": str, "grammar_lazy": bool, "grammar_triggers": list,
         "preserved_tokens": list, "dry_sequence_breakers": list}  # fmt: skip
TIMINGS = {
    "cache_n": int, "prompt_n": int, "prompt_ms": float, "prompt_per_token_ms": float, "prompt_per_second": float,
    "predicted_n": int, "predicted_ms": float, "predicted_per_token_ms": float, "predicted_per_second": float,
}  # fmt: skip
COMPLETION = {
    "index": int, "content": str, "tokens": list, "id_slot": int, "stop": bool, "model": str, "tokens_predicted": int,
    "tokens_evaluated": int, "generation_settings": {**SAMPLING, **TEXTS}, "prompt": str, "has_new_line": bool,
    "truncated": bool, "stop_type": str, "stopping_word": str, "tokens_cached": int, "timings": TIMINGS,
}  # fmt: skip
PROPS = {
    "default_generation_settings": {"params": SAMPLING, "n_ctx": int}, "total_slots": int, "model_alias": str,
    "model_ftype": str, "model_path": str, "modalities": {"vision": bool, "video": bool, "audio": bool},
    "media_marker": str, "endpoint_slots": bool, "endpoint_props": bool, "endpoint_metrics": bool, "ui": bool,
    "ui_settings": dict, "chat_template": str, "bos_token": str, "eos_token": str, "build_info": str,
    "chat_template_caps": dict.fromkeys(
        ("supports_object_arguments", "supports_parallel_tool_calls", "supports_preserve_reasoning",
         "supports_reasoning_effort", "supports_string_content", "supports_system_role", "supports_tool_calls",
         "supports_tools", "supports_typed_content"), bool
    ),
    "is_sleeping": bool, "cors_proxy_enabled": bool,
}  # fmt: skip
SLOT = {
    "id": int, "n_ctx": int, "speculative": bool, "is_processing": bool, "id_task": int, "n_prompt_tokens": int,
    "n_prompt_tokens_processed": int, "n_prompt_tokens_cache": int, "params": SAMPLING,
    "next_token": [{"has_next_token": bool, "n_remain": int, "n_decoded": int}],
}  # fmt: skip
MODELS = {
    "models": [{
        "name": str, "model": str, "modified_at": str, "size": str, "digest": str, "type": str, "description": str,
        "tags": list, "capabilities": list, "parameters": str,
        "details": {"parent_model": str, "format": str, "family": str, "families": list, "parameter_size": str,
                    "quantization_level": str},
    }],
    "object": str,
    "data": [{
        "id": str, "aliases": list, "tags": list, "object": str, "created": int, "owned_by": str,
        "meta": {"vocab_type": int, "n_vocab": int, "n_ctx": int, "n_ctx_train": int, "n_embd": int, "n_params": int,
                 "size": int, "ftype": str},
    }],
}  # fmt: skip
METRICS = {
    "prompt_tokens_total": "counter", "prompt_tokens_cached_total": "counter", "prompt_seconds_total": "counter",
    "tokens_predicted_total": "counter", "tokens_predicted_seconds_total": "counter", "n_decode_total": "counter",
    "n_tokens_max": None, "spec_decode_num_draft_tokens_total": "counter", "requests_deferred": "gauge",
    "spec_decode_num_accepted_tokens_total": "counter", "spec_decode_num_drafts_total": "counter",
    "prompt_tokens_seconds": "gauge", "predicted_tokens_seconds": "gauge", "requests_processing": "gauge",
    "n_busy_slots_per_decode": "gauge",
}  # fmt: skip
"""Their counter n_tokens_max goes up and down with restarts: ours is a gauge."""


def lacks(found: Any, shape: Any, at: str = "") -> list[str]:
    """The places where an answer has not the field, or not the type, that a client of llama.cpp expects."""
    if isinstance(shape, dict):
        if not isinstance(found, dict):
            return [at]
        return [
            place
            for key, inner in shape.items()
            for place in (lacks(found[key], inner, f"{at}.{key}") if key in found else [f"{at}.{key}"])
        ]
    if isinstance(shape, list):
        return lacks(found[0], shape[0], f"{at}[]") if isinstance(found, list) and found else [at]
    kinds = (int, float) if shape is float else shape
    return [] if isinstance(found, kinds) and (shape is bool or not isinstance(found, bool)) else [at]


def test_completion(http: httpx.Client) -> None:
    body = {"prompt": "The river runs", "n_predict": 4, "temperature": 0}
    assert lacks(http.post("/completion", json=body).json(), COMPLETION) == []
    probable = http.post("/completion", json={**body, "n_probs": 2}).json()
    entry = {"id": int, "token": str, "bytes": list, "logprob": float}
    assert lacks(probable, {"completion_probabilities": [{**entry, "top_logprobs": [entry]}]}) == []


@pytest.mark.parametrize(("path", "shape"), [("/props", PROPS), ("/v1/models", MODELS), ("/models", MODELS)])
def test_what_is_served(http: httpx.Client, path: str, shape: Any) -> None:
    assert lacks(http.get(path).json(), shape) == []


def test_slots(server: RunningServer, http: httpx.Client) -> None:
    body = {"prompt": "The river runs", "n_predict": 450, "ignore_eos": True, "stop": ["a secret"]}
    asking = threading.Thread(target=lambda: httpx.post(f"{server.url}/completion", json=body, timeout=30))
    seen: list[dict[str, Any]] = []

    def answering() -> bool:
        seen[:] = [slot for slot in http.get("/slots").json() if slot["next_token"][0]["n_decoded"]]
        return bool(seen)

    asking.start()
    wait_until(answering, "a busy slot")
    asking.join()
    assert lacks(seen, [SLOT]) == []
    slot = seen[0]
    assert slot["id_task"] > 0
    assert slot["params"]["n_predict"] == 450
    assert "secret" not in str(slot)
    read = slot["n_prompt_tokens_processed"] + slot["n_prompt_tokens_cache"]
    assert read == slot["n_prompt_tokens"]


def test_metrics(http: httpx.Client) -> None:
    http.post("/completion", json={"prompt": ["The river", "The rain"], "n_predict": 8})
    lines = http.get("/metrics").text.splitlines()
    kinds = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE"))
    values = {line.split()[0]: float(line.split()[1]) for line in lines if not line.startswith("#")}
    for name, kind in METRICS.items():
        assert f"llamacpp:{name}" in values
        assert kind in (None, kinds[f"llamacpp:{name}"])
    assert 0 < values["llamacpp:n_busy_slots_per_decode"] <= 2


def test_small_endpoints(http: httpx.Client) -> None:
    assert http.get("/lora-adapters").json() == []
    assert http.post("/slots/0?action=erase").status_code == 501
    messages = [{"role": "user", "content": "What is a river?"}]
    counted = http.post("/v1/chat/completions/input_tokens", json={"messages": messages}).json()
    prompt = http.post("/apply-template", json={"messages": messages}).json()["prompt"]
    tokens = http.post("/tokenize", json={"content": prompt, "parse_special": True}).json()["tokens"]
    assert counted == {"object": "response.input_tokens", "input_tokens": len(tokens)}


def test_what_a_template_can_do() -> None:
    simple = template_caps(ChatTemplate(CHATML))
    assert {name for name, can in simple.items() if can} == {"supports_string_content", "supports_system_role"}
    capable = template_caps(
        ChatTemplate(
            "{{ (tools or []) | tojson }}{% for m in messages %}{{ m.role }}: {{ m.reasoning_content }}"
            "{% if m.content is string %}{{ m.content }}{% else %}{{ m.content[0].text }}{% endif %}"
            "{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments.k }}){% endfor %}{% endfor %}"
        )
    )
    assert {name for name, can in capable.items() if not can} == {"supports_reasoning_effort"}
    strict = template_caps(ChatTemplate("{{ raise_exception('never') }}"))
    assert not any(strict.values())
