"""The values that cross the boundaries: what is asked, what comes back, what it cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from secrets import token_hex
from typing import Literal

import msgspec

Token = int
SeqId = int

FinishReason = Literal["stop", "length", "context", "time", "cancelled", "error", "invalid"]
"""The last: the request turned out to be impossible half-way, and `Finish.error` says why."""

MODEL = "model"
"""The origin of a token that no drafter guessed."""


class SamplingParams(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the next token is chosen; names, order and neutral values are llama.cpp's."""

    temperature: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    top_n_sigma: float = -1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    repeat_last_n: int = 64
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: tuple[str, ...] = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    infill: bool = False
    """Only likely tokens, and an early end where no token is: for filling in, as editors ask for it."""
    seed: int | None = None
    logit_bias: Mapping[Token, float] = msgspec.field(default_factory=dict)
    banned: tuple[Token, ...] = ()

    @property
    def greedy(self) -> bool:
        return self.temperature <= 0

    @property
    def penalises(self) -> bool:
        """Whether earlier tokens change the logits."""
        penalties = (self.repeat_penalty - 1, self.frequency_penalty, self.presence_penalty)
        return self.repeat_last_n != 0 and any(penalties)

    @property
    def n_best(self) -> int | None:
        """How many of the best tokens are all that a choice looks at; None where that is not known."""
        return None if self.biases or self.penalises else self.n_best_untouched

    @property
    def n_best_untouched(self) -> int | None:
        """Likewise, of the tokens whose logits neither biases nor penalties change."""
        if self.dry_multiplier:
            return None
        if self.greedy:
            return None if self.infill else 1
        # Mirostat and top-n-sigma look at all logits. Two at least: of a best token alone nobody knows the logit.
        return None if self.mirostat or self.top_n_sigma > 0 or self.top_k <= 0 else max(self.top_k, 2)

    @property
    def biases(self) -> dict[Token, float]:
        """What is added to single logits; banned tokens get minus infinity."""
        return {**self.logit_bias, **dict.fromkeys(self.banned, -math.inf)}


class SpeculationParams(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one request may say about drafting; None leaves it to the engine."""

    drafters: tuple[str, ...] | None = None
    """Names of the drafters that may offer; none of them is plain decoding."""
    n_max: int | None = None
    n_min: int | None = None
    p_min: float | None = None

    @property
    def off(self) -> bool:
        return self.drafters == ()


OFF = SpeculationParams(drafters=())


class Constraint(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an answer may look like: a grammar that every token must keep to, until the grammar lets the answer end."""

    kind: Literal["json_schema", "gbnf", "regex", "lark"]
    source: str
    """The schema (as JSON text), grammar or expression itself; lark is llguidance's dialect of it."""
    thought: Literal["none", "may", "open"] = "none"
    """What comes before and is free: nothing, a thought in <think> tags if the model wants one, or the rest of one."""
    origin: str = ""
    """What a client asked for that led to this, if it did not write the source itself."""


ANY_OBJECT = Constraint("json_schema", '{"type":"object"}')


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing asked of the engine: a prompt (text or tokens) and how to continue it."""

    prompt: str | bytes | Sequence[Token]
    sampling: SamplingParams = msgspec.field(default_factory=SamplingParams)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    logprobs: int | None = None
    """How many alternatives to report beside each token; 0 reports the token alone, None nothing."""
    prompt_logprobs: int | None = None
    """Likewise for the prompt's own tokens; they come with the end of the answer, and nothing cached is used."""
    ignore_eos: bool = False
    time_limit: float | None = None
    """Seconds from submission after which the answer ends where it is."""
    cache_prompt: bool = True
    context_shift: bool = False
    """When the context is full, forget the older half instead of stopping (attention-only models)."""
    n_keep: int = 0
    """Tokens at the start of the prompt that a context shift never forgets."""
    speculation: SpeculationParams = msgspec.field(default_factory=SpeculationParams)
    constraint: Constraint | None = None
    shown: tuple[Token, ...] = ()
    """Control tokens that are part of this answer's text; the others are invisible."""
    details: bool = False
    """Whether the client wants to be told how every step went."""
    owner: str = ""
    """Whose request this is: nothing learnt or kept for one owner serves another."""
    id: str = msgspec.field(default_factory=lambda: token_hex(6))


class TokenInfo(msgspec.Struct, frozen=True, array_like=True):
    """One emitted token: its bytes, who guessed it, and its probability if that was asked for."""

    id: Token
    piece: bytes
    origin: str = MODEL
    logprob: float | None = None
    top: tuple[tuple[Token, float], ...] = ()


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One step of the engine as one answer lived it."""

    width: int
    """Rows of the whole batch, those of other answers included."""
    drafted: int
    accepted: int
    replayed: int
    """Rows spent on tokens that a rewind had taken from memory."""
    ms: float
    """Since the answer's step before this one; the first counts from when its prompt began to be read."""
    drafter: str = ""


class DrafterUsage(msgspec.Struct, frozen=True):
    """What one drafter did for one answer.

    offered = verified + unverified, verified = accepted + rejected.
    """

    drafts_offered: int = 0
    drafts_verified: int = 0
    drafts_accepted: int = 0
    offered: int = 0
    verified: int = 0
    accepted: int = 0
    missed: int = 0
    """Tokens offered but not verified that would have been right."""
    failures: int = 0
    accepted_at: tuple[int, ...] = ()
    """How often the first, second, third ... token of a draft was right."""
    begin_calls: int = 0
    begin_ms: float = 0.0
    draft_calls: int = 0
    draft_ms: float = 0.0
    accept_calls: int = 0
    accept_ms: float = 0.0


class Usage(msgspec.Struct, frozen=True):
    """What one answer cost, in tokens and milliseconds."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    replayed: int = 0
    rewinds: int = 0
    rewind_ms: float = 0.0
    queue_ms: float = 0.0
    prompt_ms: float = 0.0
    generation_ms: float = 0.0
    saved_ms: float | None = None
    """What speculation saved against plain steps of the same run; negative is lost, None is not known."""
    drafters: Mapping[str, DrafterUsage] = msgspec.field(default_factory=dict)


class Chunk(msgspec.Struct, frozen=True, array_like=True):
    """Text that is final, with the tokens decided in the same step."""

    choice: int
    text: str
    tokens: tuple[TokenInfo, ...]
    step: Step | None = None
    """None for text that was only held back until the answer's end."""


class Finish(msgspec.Struct, frozen=True):
    """The end of one choice: why, at what cost, and for errors what went wrong."""

    choice: int
    reason: FinishReason
    usage: Usage
    stop: str | None = None
    error: str | None = None
    prompt: tuple[TokenInfo, ...] = ()
    """The prompt's tokens with their probabilities, if those were asked for; the first has none."""


Event = Chunk | Finish
