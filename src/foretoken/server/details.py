"""How an answer came about: its tokens with who guessed them, and its steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict

from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Chunk, Step, TokenInfo

EVENT = "foretoken.step"


def step_event(number: int, chunk: Chunk, vocabulary: Vocabulary) -> dict[str, Any]:
    """An event of a stream for whoever asked for details; the choices are empty so that OpenAI's clients go on."""
    return {
        "type": EVENT,
        "choices": [],
        "index": number,
        "step": step_body(chunk.step, len(chunk.tokens)) if chunk.step else None,
        "tokens": tokens_body(chunk.tokens, vocabulary),
    }


def step_body(step: Step, n_tokens: int) -> dict[str, Any]:
    return {**asdict(step), "ms": round(step.ms, 4), "tokens": n_tokens}


def tokens_body(infos: Sequence[TokenInfo], vocabulary: Vocabulary) -> list[dict[str, Any]]:
    return [_token(info, vocabulary) for info in infos]


def _token(info: TokenInfo, vocabulary: Vocabulary) -> dict[str, Any]:
    ends = info.id in vocabulary.end_tokens
    found: dict[str, Any] = {"id": info.id, **_text(b"" if ends else info.piece), "origin": info.origin}
    if ends:
        found["ends"] = True
    if info.logprob is not None:
        found["logprob"] = round(info.logprob, 5)
        found["top"] = [
            {"id": token, **_text(vocabulary.piece(token)), "logprob": round(logprob, 5)} for token, logprob in info.top
        ]
    return found


def _text(piece: bytes) -> dict[str, Any]:
    """A token's text; its bytes too where they are not a whole text, as part of a character is not."""
    try:
        return {"text": piece.decode()}
    except UnicodeDecodeError:
        return {"text": piece.decode("utf-8", "replace"), "bytes": list(piece)}
