"""Requests that can never be served are refused before they reach the queue, each with its reason."""

from __future__ import annotations

import math
from operator import attrgetter

from foretoken.errors import InvalidRequest, PromptTooLong
from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Request, SamplingParams, Token

MAX_LOGPROBS = 100
MAX_CHOICES = 128

_NAMES = SamplingParams.__struct_fields__
_VALUES = attrgetter(*_NAMES)


def prompt_tokens(request: Request, vocabulary: Vocabulary, n_ctx: int) -> list[Token]:
    """The request's prompt as tokens, checked together with everything else in it."""
    _check_limits(request)
    _check_sampling(request.sampling, vocabulary)
    if isinstance(request.prompt, str | bytes):
        tokens = vocabulary.tokenize(request.prompt)
    else:
        tokens = list(request.prompt)
        if set(map(type, tokens)) != {int}:
            tokens = [_token(token) for token in tokens]
        vocabulary.check(tokens)
    if not tokens:
        raise InvalidRequest("the prompt is empty; give at least one token")
    if len(tokens) > n_ctx:
        raise PromptTooLong(len(tokens), n_ctx)
    return tokens


def _token(value: object) -> Token:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"a prompt is text or a list of token numbers; {value!r} is neither")
    return value


def _check_limits(request: Request) -> None:
    if request.max_tokens is not None and request.max_tokens < 0:
        raise InvalidRequest("max_tokens must not be negative; leave it out for no limit")
    if not 1 <= request.n <= MAX_CHOICES:
        raise InvalidRequest(f"n must be between 1 and {MAX_CHOICES}")
    for n in (request.logprobs, request.prompt_logprobs):
        if n is not None and not 0 <= n <= MAX_LOGPROBS:
            raise InvalidRequest(f"logprobs must be between 0 and {MAX_LOGPROBS}")
    if request.ignore_eos and request.constraint is not None:
        raise InvalidRequest("ignore_eos: a constrained answer ends where its grammar does; leave one of them out")
    if any(not stop for stop in request.stop):
        raise InvalidRequest("a stop string must not be empty")
    if request.time_limit is not None and not request.time_limit > 0:
        raise InvalidRequest("time_limit must be a positive number of seconds")
    if request.n_keep < 0:
        raise InvalidRequest("n_keep must not be negative")


def _check_sampling(params: SamplingParams, vocabulary: Vocabulary) -> None:
    for name, value in zip(_NAMES, _VALUES(params), strict=True):
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidRequest(f"{name} must be a finite number")
    if not params.repeat_penalty > 0:
        raise InvalidRequest("repeat_penalty must be greater than 0; 1 is off")
    if params.mirostat not in (0, 1, 2):
        raise InvalidRequest("mirostat must be 0 (off), 1 or 2")
    vocabulary.check(list(params.logit_bias))
    vocabulary.check(params.banned)
    if any(math.isnan(bias) for bias in params.logit_bias.values()):
        raise InvalidRequest("a logit bias must be a number")
    if len(set(params.banned)) >= vocabulary.n_tokens:
        raise InvalidRequest("every token is banned; nothing is left to say")
