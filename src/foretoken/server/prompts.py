"""Prompts in all the shapes clients send them: text, tokens, both mixed, or several of these."""

from __future__ import annotations

from typing import Any

from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Token

_EXPECTED = "prompt: give a text, a list of tokens, or a list of such prompts"


def split_prompts(value: Any) -> list[Any]:
    """The single prompts in a body's `prompt`: a list of numbers, or of numbers and texts, is one prompt."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [_text_of(value)]
    if not isinstance(value, list):
        raise InvalidRequest(_EXPECTED)
    if not value:
        raise InvalidRequest("prompt: the list is empty")
    if any(_is_number(part) for part in value):
        return [value]
    return [_text_of(part) if isinstance(part, dict) else part for part in value]


def prompt_tokens(prompt: Any, vocabulary: Vocabulary) -> list[Token]:
    """The tokens of one prompt; only text at its beginning gets the model's own first token."""
    if isinstance(prompt, str):
        return vocabulary.tokenize(prompt)
    if not isinstance(prompt, list):
        raise InvalidRequest(_EXPECTED)
    tokens: list[Token] = []
    for number, part in enumerate(prompt):
        if isinstance(part, str):
            tokens += vocabulary.tokenize(part, add_special=number == 0)
        elif _is_number(part):
            tokens.append(int(part))
        else:
            raise InvalidRequest(_EXPECTED)
    vocabulary.check(tokens)
    return tokens


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text_of(value: dict[str, Any]) -> str:
    if value.get("multimodal_data"):
        raise InvalidRequest("prompt: this server reads text only")
    text = value.get("prompt_string")
    if not isinstance(text, str):
        raise InvalidRequest(_EXPECTED)
    return text
