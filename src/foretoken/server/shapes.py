"""Parts of answers that several endpoints share: timings, usage, probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Chunk, Event, Finish, Step, Token, TokenInfo, Usage

_LOWEST = -9999.0
"""Stands for minus infinity, which JSON has no word for."""


@dataclass(slots=True)
class Choice:
    """One answer, complete or growing."""

    text: str = ""
    tokens: list[TokenInfo] = field(default_factory=list)
    steps: list[tuple[Step, int]] = field(default_factory=list)
    """Each with how many tokens came of it."""
    finish: Finish | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Chunk):
            self.text += event.text
            self.tokens += event.tokens
            if event.step is not None:
                self.steps.append((event.step, len(event.tokens)))
        else:
            self.finish = event

    @property
    def usage(self) -> Usage:
        return self.finish.usage if self.finish else Usage()


def timings(usage: Usage) -> dict[str, Any]:
    """llama.cpp's timings; benchmark clients read them."""
    n_read = usage.prompt_tokens - usage.cached_tokens
    found: dict[str, Any] = {
        "cache_n": usage.cached_tokens,
        **_pace("prompt", n_read, usage.prompt_ms),
        **_pace("predicted", usage.completion_tokens, usage.generation_ms),
    }
    if usage.drafted:
        found |= {"draft_n": usage.drafted, "draft_n_accepted": usage.accepted}
    return found


def _pace(name: str, n: int, ms: float) -> dict[str, Any]:
    return {
        f"{name}_n": n,
        f"{name}_ms": round(ms, 3),
        f"{name}_per_token_ms": round(ms / n, 4) if n else 0.0,
        f"{name}_per_second": round(n / ms * 1e3, 4) if ms > 0 else 0.0,
    }


def usage_body(finishes: Sequence[Finish], n_prompts: int) -> dict[str, Any]:
    """OpenAI's usage over all choices, with what speculation did beside it."""
    usages = [finish.usage for finish in finishes]
    # Every choice of a prompt reports the same prompt; it was asked once.
    per_prompt = max(1, len(usages) // max(1, n_prompts))
    n_prompt = sum(usage.prompt_tokens for usage in usages[::per_prompt])
    n_cached = sum(usage.cached_tokens for usage in usages[::per_prompt])
    n_answer = sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": n_prompt,
        "completion_tokens": n_answer,
        "total_tokens": n_prompt + n_answer,
        "prompt_tokens_details": {"cached_tokens": n_cached},
        "speculation": speculation_body(usages),
    }


def speculation_body(usages: Sequence[Usage]) -> dict[str, Any]:
    """What was drafted, what of it was right, and what that cost, also by drafter."""
    names = {name for usage in usages for name in usage.drafters}
    saved = [usage.saved_ms for usage in usages if usage.saved_ms is not None]
    return {
        "drafted": sum(usage.drafted for usage in usages),
        "accepted": sum(usage.accepted for usage in usages),
        "replayed": sum(usage.replayed for usage in usages),
        "rewinds": sum(usage.rewinds for usage in usages),
        "rewind_ms": round(sum(usage.rewind_ms for usage in usages), 3),
        "steps": sum(usage.steps for usage in usages),
        "saved_ms": round(sum(saved), 3) if saved else None,
        "drafters": {name: _drafter_body(name, usages) for name in sorted(names)},
    }


def _drafter_body(name: str, usages: Sequence[Usage]) -> dict[str, Any]:
    found = [usage.drafters[name] for usage in usages if name in usage.drafters]
    return {
        "offered": sum(drafter.offered for drafter in found),
        "drafted": sum(drafter.verified for drafter in found),
        "accepted": sum(drafter.accepted for drafter in found),
        "ms": round(sum(drafter.begin_ms + drafter.draft_ms + drafter.accept_ms for drafter in found), 3),
    }


def probability(token: Token, logprob: float | None, vocabulary: Vocabulary) -> dict[str, Any]:
    """One token with its probability, as OpenAI and llama.cpp write it."""
    piece = vocabulary.piece(token)
    return {
        "id": token,
        "token": piece.decode("utf-8", "replace"),
        "bytes": list(piece),
        "logprob": max(logprob, _LOWEST) if logprob is not None else None,
    }


def probability_of(info: TokenInfo, vocabulary: Vocabulary) -> dict[str, Any]:
    """A token that was said, with its alternatives."""
    top = [probability(token, logprob, vocabulary) for token, logprob in info.top]
    return {**probability(info.id, info.logprob, vocabulary), "top_logprobs": top}


def probabilities(infos: Sequence[TokenInfo], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    """The tokens of an answer with their alternatives; a token that only ends the answer is not part of it."""
    return [probability_of(info, vocabulary) for info in infos if info.id not in vocabulary.end_tokens]


def finish_reason(finish: Finish) -> str:
    """OpenAI knows two ways to end."""
    return "stop" if finish.reason in ("stop", "cancelled") else "length"
