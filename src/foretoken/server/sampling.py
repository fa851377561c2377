"""From a body's fields to the engine's sampling parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from foretoken.errors import InvalidRequest
from foretoken.llama.vocabulary import Vocabulary
from foretoken.server.fields import GenerationFields, SpeculativeFields
from foretoken.types import SamplingParams, SpeculationParams, Token

_PLAIN = {*SamplingParams.__struct_fields__} - {
    "seed",
    "logit_bias",
    "banned",
    "dry_sequence_breakers",
    "infill",
}
_RANDOM_SEED = 2**32 - 1

ORDER = ("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature", "infill")
_ALIASES = {"typical_p": "typ_p", "temp": "temperature", "top-k": "top_k", "top-p": "top_p", "min-p": "min_p"}
_LETTERS = {"e": "penalties", "d": "dry", "s": "top_n_sigma", "k": "top_k", "y": "typ_p", "p": "top_p", "m": "min_p",
            "x": "xtc", "t": "temperature", "i": "infill"}  # fmt: skip
"""llama.cpp's short names; llama.vscode writes its samplers as one word of them."""
_OFF: dict[str, dict[str, Any]] = {
    "penalties": {"repeat_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0},
    "dry": {"dry_multiplier": 0.0},
    "top_n_sigma": {"top_n_sigma": -1.0},
    "top_k": {"top_k": 0},
    "typ_p": {"typical_p": 1.0},
    "top_p": {"top_p": 1.0},
    "min_p": {"min_p": 0.0},
    "xtc": {"xtc_probability": 0.0},
    "temperature": {"temperature": 1.0, "dynatemp_range": 0.0},
}


def sampling_params(
    body: GenerationFields, defaults: SamplingParams, vocabulary: Vocabulary, n_ctx: int
) -> SamplingParams:
    """The defaults of the server with what the body says on top."""
    said = body.model_fields_set & _PLAIN
    given = {name: value for name in said if (value := getattr(body, name)) is not None}
    for name in ("repeat_last_n", "dry_penalty_last_n"):
        if name in given:
            given[name] = min(given[name], n_ctx)
    if body.dry_sequence_breakers is not None:
        given["dry_sequence_breakers"] = tuple(body.dry_sequence_breakers)
    if body.seed is not None:
        given["seed"] = None if body.seed in (-1, _RANDOM_SEED) else body.seed
    if body.logit_bias:
        given["logit_bias"], given["banned"] = _biases(body.logit_bias, vocabulary)
    params = replace(defaults, **given) if given else defaults
    return params if body.samplers is None else replace(params, **_selected(body.samplers, params))


def _selected(names: Sequence[str] | str, params: SamplingParams) -> dict[str, Any]:
    """Neutral values for the samplers a request does not list; `infill` works only where it is listed."""
    if isinstance(names, str):
        names = [_LETTERS.get(letter, letter) for letter in names]
    listed = [_ALIASES.get(name, name) for name in names]
    for name in listed:
        if name not in ORDER:
            raise InvalidRequest(f"samplers: {name!r} is not a sampler; there are {', '.join(ORDER)}")
    if listed != [name for name in ORDER if name in listed]:
        raise InvalidRequest(f"samplers: only this order is supported: {', '.join(ORDER)}")
    values = {key: value for name, off in _OFF.items() if name not in listed for key, value in off.items()}
    if params.greedy:
        values.pop("temperature", None)
    return {**values, "infill": "infill" in listed}


def _biases(
    given: dict[str, float | bool] | list[list[Any]], vocabulary: Vocabulary
) -> tuple[dict[Token, float], tuple[Token, ...]]:
    """Biases by token; false bans a token. A text stands for all of its tokens."""
    biases: dict[Token, float] = {}
    banned: list[Token] = []
    pairs = list(given.items()) if isinstance(given, dict) else [_pair(entry) for entry in given]
    for name, value in pairs:
        for token in _tokens(name, vocabulary):
            if value is False:
                banned.append(token)
            elif isinstance(value, int | float) and value is not True and abs(value) <= 1e6:
                biases[token] = float(value)
            else:
                raise InvalidRequest("logit_bias: a bias is a number, or false to ban the token")
    return biases, tuple(banned)


def _pair(entry: list[Any]) -> tuple[Any, Any]:
    if len(entry) != 2:
        raise InvalidRequest("logit_bias: each entry is a pair of a token and a bias")
    return entry[0], entry[1]


def _tokens(name: object, vocabulary: Vocabulary) -> list[Token]:
    if isinstance(name, str):
        digits = name.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 12):
            return vocabulary.tokenize(name, add_special=False)
        name = int(name)
    if isinstance(name, bool) or not isinstance(name, int):
        raise InvalidRequest("logit_bias: a token is its number or its text")
    vocabulary.check([name])
    return [name]


def speculation_params(body: SpeculativeFields | None, known: Sequence[str]) -> SpeculationParams:
    """What the request says about drafting, with drafters that are there."""
    if body is None:
        return SpeculationParams()
    return SpeculationParams(_drafters(body.type, known), body.n_max, body.n_min, body.p_min)


def _drafters(names: str | None, known: Sequence[str]) -> tuple[str, ...] | None:
    listed = [name.strip() for name in (names or "auto").split(",") if name.strip()]
    if listed == ["auto"]:
        return None
    if listed in ([], ["none"]):
        return ()
    for name in listed:
        if name not in known:
            there = ", ".join(known) or "no drafter"
            raise InvalidRequest(f"speculative.type: {name!r} is not running here; there is {there}, auto or none")
    return tuple(listed)
