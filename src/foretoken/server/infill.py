"""Prompts for filling in the middle, in the order llama.cpp puts their parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Token

_PROJECT = "myproject\n"
_SNIPPET = "\n\n--- snippet ---\n\n"
_WINDOW = 2048
"""Tokens around the gap; three quarters of them before it."""
_USUAL_ANSWER = 128


class ExtraContext(BaseModel):
    """A piece of another file that may help."""

    model_config = ConfigDict(extra="allow")

    text: str = ""
    filename: Annotated[str, Field(max_length=4096)] = "tmp"


def infill_tokens(
    vocabulary: Vocabulary,
    prefix: Any,
    suffix: str,
    prompt: Sequence[Token],
    extra: Sequence[ExtraContext],
    n_ctx: int,
    n_predict: int | None,
) -> list[Token]:
    """[extra context] PREFIX before, SUFFIX after, MIDDLE; what does not fit is left out at the far ends."""
    before, after, middle = vocabulary.fim_prefix, vocabulary.fim_suffix, vocabulary.fim_middle
    if before is None or after is None or middle is None:
        raise InvalidRequest("this model cannot fill in: its vocabulary has no tokens for it")
    if not isinstance(prefix, str):
        raise InvalidRequest("the text before the gap must be a text")
    n_answer = min(n_predict if n_predict is not None and n_predict >= 0 else _USUAL_ANSWER, n_ctx // 2)
    room = n_ctx - n_answer - len(prompt) - 4
    window = min(_WINDOW, room)
    head = _plain(vocabulary, prefix)
    tail = _plain(vocabulary, suffix)
    n_tail = min(len(tail), max(0, window // 4))
    n_head = min(len(head), max(0, window - n_tail))
    first = [vocabulary.bos] if vocabulary.adds_bos and vocabulary.bos is not None else []
    core = [*first, before, *head[len(head) - n_head :], *prompt, after, *tail[:n_tail], middle]
    context = _extra_tokens(vocabulary, extra) if extra else []
    n_extra = min(len(context), max(0, n_ctx - n_answer - len(core)))
    return [*context[len(context) - n_extra :], *core]


def _extra_tokens(vocabulary: Vocabulary, extra: Sequence[ExtraContext]) -> list[Token]:
    tokens: list[Token] = []
    separator = vocabulary.fim_separator
    if vocabulary.fim_repository is not None:
        tokens += [vocabulary.fim_repository, *_plain(vocabulary, _PROJECT)]
    for piece in extra:
        if separator is not None:
            tokens += [separator, *_plain(vocabulary, piece.filename + "\n")]
        else:
            tokens += _plain(vocabulary, _SNIPPET)
        tokens += _plain(vocabulary, piece.text)
    if separator is not None:
        tokens += [separator, *_plain(vocabulary, "filename\n")]
    return tokens


def _plain(vocabulary: Vocabulary, text: str) -> list[Token]:
    return vocabulary.tokenize(text, special=False, add_special=False)
