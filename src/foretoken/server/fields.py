"""The fields every generating endpoint shares: llama.cpp's sampling fields, and what one request may say else."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from foretoken.errors import InvalidRequest
from foretoken.server.constraints import ConstraintFields

Int = Annotated[int, Field(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Field(ge=0, lt=2**31)]
Real = Annotated[float, Field(ge=-1e6, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**64)]
StopText = Annotated[str, Field(min_length=1, max_length=1000)]

MAX_STOPS = 64

NEUTRAL: tuple[Any, ...] = (None, "", 0, False, [], {})

REFUSED = {
    "lora": "LoRA adapters are not supported",
    "min_keep": "min_keep is not supported",
    "n_discard": "n_discard is not supported; a full context forgets its older half",
    "post_sampling_probs": "probabilities are the model's own, before sampling; post_sampling_probs is not supported",
    "multimodal_data": "this server reads text only",
    "image_data": "this server reads text only",
}
"""Fields of llama.cpp's server that change the answer and that we cannot honour."""

WITHOUT_EFFECT = frozenset(
    {
        "model",
        "id_slot",
        "t_max_prompt_ms",
        "return_progress",
        "sse_ping_interval",
        "verbose",
        "timings_per_token",
    }
)
"""Fields that change no answer: one model is served, the best slot is taken, nothing is lost without them."""


class SpeculativeFields(BaseModel):
    """What one request may say about drafting; the answer's text never depends on it."""

    model_config = ConfigDict(extra="forbid")

    type: str | None = Field(None, max_length=200, description="Drafter names, comma-separated; none is off.")
    n_max: Count | None = None
    n_min: Count | None = None
    p_min: Share | None = None


def _few(stops: list[str] | str) -> list[str] | str:
    if isinstance(stops, list) and len(stops) > MAX_STOPS:
        raise ValueError(f"at most {MAX_STOPS} stop strings")
    return stops


class GenerationFields(ConstraintFields):
    """How to continue a prompt; every field may be left out or null."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    temperature: Real | None = None
    dynatemp_range: Real | None = None
    dynatemp_exponent: Real | None = None
    top_k: Int | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    typical_p: Share | None = None
    top_n_sigma: Real | None = None
    xtc_probability: Share | None = None
    xtc_threshold: Share | None = None
    repeat_last_n: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    repeat_penalty: Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)] | None = None
    frequency_penalty: Real | None = None
    presence_penalty: Real | None = None
    dry_multiplier: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    dry_base: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)] | None = None
    dry_allowed_length: Count | None = None
    dry_penalty_last_n: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    dry_sequence_breakers: Annotated[list[StopText], Field(max_length=MAX_STOPS)] | None = None
    mirostat: Annotated[int, Field(ge=0, le=2)] | None = None
    mirostat_tau: Real | None = None
    mirostat_eta: Real | None = None
    samplers: Annotated[list[str] | str, Field(max_length=32)] | None = None
    seed: Seed | None = None
    logit_bias: Annotated[dict[str, float | bool] | list[list[Any]], Field(max_length=4096)] | None = None
    ignore_eos: bool | None = None
    stop: Annotated[list[StopText] | str, AfterValidator(_few)] | None = None
    n_keep: Annotated[int, Field(ge=-1, lt=2**31)] | None = None
    cache_prompt: bool | None = None
    n_cache_reuse: Count | None = None
    stream: bool | None = None
    speculative: SpeculativeFields | None = None
    return_speculation: bool | None = Field(
        None, description="In a stream: tell every step and who guessed each token."
    )

    @model_validator(mode="before")
    @classmethod
    def _collect_dotted(cls, values: Any) -> Any:
        """llama.cpp spells nested fields with a dot as well: speculative.n_max."""
        if not isinstance(values, dict):
            return values
        dotted = {key.split(".", 1)[1]: values[key] for key in values if key.startswith("speculative.")}
        if not dotted:
            return values
        nested = values.get("speculative") or {}
        if not isinstance(nested, dict):
            return values
        rest = {key: value for key, value in values.items() if not key.startswith("speculative.")}
        return {**rest, "speculative": {**dotted, **nested}}

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(text for text in given if text)

    def refuse_unsupported(self, further: dict[str, str] | None = None) -> list[str]:
        """Refuse what would change the answer and cannot be honoured; returns the unknown names."""
        extra = self.model_extra or {}
        refused = {**REFUSED, **(further or {})}
        for name, reason in refused.items():
            if name in extra and extra[name] not in NEUTRAL:
                raise InvalidRequest(f"{name}: {reason}")
        return sorted(name for name in extra if name not in refused and name not in WITHOUT_EFFECT)
