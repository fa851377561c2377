"""What a request asked for, under llama.cpp's names."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from foretoken.server.sampling import ORDER
from foretoken.types import Request, SamplingParams

_TEXTS = ("stop", "grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens", "logit_bias",
          "dry_sequence_breakers")  # fmt: skip
"""What llama.cpp leaves out of /props and /slots: it may hold a client's own words."""


def settings_body(request: Request, n_ctx: int, *, stream: bool = False) -> dict[str, Any]:
    """Every setting of a request; fields of llama.cpp that we refuse have the value they always have."""
    speculation = request.speculation
    n_wanted = -1 if request.max_tokens is None else request.max_tokens
    drafters = "auto" if speculation.drafters is None else ",".join(speculation.drafters) or "none"
    return {
        **_sampling(request.sampling),
        "adaptive_target": -1.0,
        "adaptive_decay": 0.9,
        "n_ctx": n_ctx,
        "n_predict": n_wanted,
        "max_tokens": n_wanted,
        "n_keep": request.n_keep,
        "n_discard": 0,
        "n_probs": request.logprobs or 0,
        "min_keep": 0,
        "stop": list(request.stop),
        "ignore_eos": request.ignore_eos,
        "stream": stream,
        "grammar": request.constraint.source if request.constraint else "",
        "grammar_lazy": False,
        "grammar_triggers": [],
        "preserved_tokens": [],
        "chat_format": "Content-only",
        "reasoning_format": "none",
        "reasoning_in_content": False,
        "generation_prompt": "",
        "samplers": [name for name in ORDER if name != "infill" or request.sampling.infill],
        "speculative.types": drafters,
        "speculative.type": drafters,
        "speculative.n_max": speculation.n_max,
        "speculative.n_min": speculation.n_min,
        "speculative.p_min": speculation.p_min,
        "timings_per_token": False,
        "post_sampling_probs": False,
        "backend_sampling": False,
        "lora": [],
    }


def public_settings(request: Request, n_ctx: int) -> dict[str, Any]:
    """The same without what may hold a client's own words, for everyone who may look."""
    return {name: value for name, value in settings_body(request, n_ctx).items() if name not in _TEXTS}


def _sampling(params: SamplingParams) -> dict[str, Any]:
    found = asdict(params)
    banned, biases = found.pop("banned"), found.pop("logit_bias")
    del found["infill"]
    found["seed"] = 2**32 - 1 if params.seed is None else params.seed
    found["logit_bias"] = [*([token, bias] for token, bias in biases.items()), *([t, False] for t in banned)]
    return found
