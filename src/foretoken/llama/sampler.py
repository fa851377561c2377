"""libllama's sampler chain, in llama.cpp's order."""

from __future__ import annotations

import ctypes
import secrets
from collections import deque
from collections.abc import Iterator, Sequence

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Among
from foretoken.llama.contenders import Contenders, worth_it
from foretoken.llama.rows import Rows
from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import SamplingParams, Token

_MIN_KEEP = 0
_MIROSTAT_M = 100
_INFILL_CANDIDATES = 128
_SHORT = 4096
"""So many tokens are put together and looked through as fast as the best few of a large vocabulary are found."""
_CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class LlamaSampler:
    """Owns a sampler chain; `sample` chooses a token from a decoded row and remembers it."""

    def __init__(
        self,
        context: object,
        rows: Rows,
        vocabulary: Vocabulary,
        n_ctx: int,
        params: SamplingParams,
        history: Sequence[Token],
    ) -> None:
        self._context = context
        self._rows = rows
        self._biased = frozenset(params.biases)
        self._penalised: deque[Token] = deque(maxlen=_window(params.repeat_last_n, n_ctx) if params.penalises else 0)
        self._n_best = self._n_looked_at(params, vocabulary.n_tokens)
        n_best = self._n_best or 0
        self._n_within = 2 * n_best if worth_it(vocabulary.n_tokens, 2 * n_best) else n_best
        """Likewise where a grammar may forbid some of them."""
        self._chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        for link in _links(params, vocabulary, n_ctx):
            llama_cpp.llama_sampler_chain_add(self._chain, link)
        for token in history[-_reach(params, n_ctx) :]:
            self._accept(token)

    def _n_looked_at(self, params: SamplingParams, n_vocab: int) -> int | None:
        """How many best tokens hold all that can be chosen, beside those that are changed; None: all must be seen."""
        if params.n_best_untouched is None:
            return None
        n = params.n_best_untouched + len(self._biased) + (self._penalised.maxlen or 0)
        return n if worth_it(n_vocab, n) else None

    def sample(self, row: int, among: Among | None = None) -> Token:
        if among is not None:
            return self._choose(*self._within(row, among))
        if self._n_best is not None:
            return self._choose(*self._candidates(row, self._n_best))
        return int(llama_cpp.llama_sampler_sample(self._chain, self._context, row))

    def _within(self, row: int, among: Among) -> Contenders:
        """What may be chosen: all of it, or no more than can be, where that is less."""
        if self._n_best is not None and among.n_most > _SHORT:
            tokens, logits = self._candidates(row, self._n_within)
            allowed = among.holds(tokens)
            # With as many of the best as are looked at, whoever else is allowed makes no difference.
            if np.count_nonzero(allowed) >= self._n_best:
                return tokens[allowed], logits[allowed]
        return among.tokens, self._rows.logits(row).take(among.tokens)

    def _candidates(self, row: int, n: int) -> Contenders:
        """The best tokens, and those that biases and penalties may make the best, or no longer that."""
        tokens, logits = self._rows.contenders(row, n)
        changed = self._biased.union(self._penalised)
        if not changed:
            return tokens, logits
        tokens = np.union1d(tokens, np.fromiter(changed, np.intp, len(changed)))
        return tokens, self._rows.logits(row).take(tokens)

    def _choose(self, tokens: NDArray[np.intp], logits: NDArray[np.float32]) -> Token:
        """Only what may be chosen goes in: some samplers compute nonsense from logits of minus infinity."""
        candidates = np.zeros(len(tokens), _CANDIDATE)
        candidates["id"] = tokens
        candidates["logit"] = logits
        data = candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
        array = llama_cpp.llama_token_data_array(data, len(candidates), -1, False)
        llama_cpp.llama_sampler_apply(self._chain, ctypes.byref(array))
        token = int(array.data[array.selected].id)
        self._accept(token)
        return token

    def _accept(self, token: Token) -> None:
        llama_cpp.llama_sampler_accept(self._chain, token)
        self._penalised.append(token)

    def close(self) -> None:
        if self._chain is not None:
            chain, self._chain = self._chain, None
            llama_cpp.llama_sampler_free(chain)


def _reach(params: SamplingParams, n_ctx: int) -> int:
    """How many tokens back any sampler in the chain looks (at least 1, so that the slice is a tail)."""
    spans = [1]
    if params.penalises:
        spans.append(_window(params.repeat_last_n, n_ctx))
    if params.dry_multiplier:
        spans.append(_window(params.dry_penalty_last_n, n_ctx))
    return max(spans)


def _window(last_n: int, n_ctx: int) -> int:
    """llama.cpp's -1 means the whole context; the library itself takes no such value."""
    return n_ctx if last_n < 0 else last_n


def _links(params: SamplingParams, vocabulary: Vocabulary, n_ctx: int) -> Iterator[object]:
    n_vocab = vocabulary.n_tokens
    bias = params.biases
    if bias:
        entries = (llama_cpp.llama_logit_bias * len(bias))(*bias.items())
        yield llama_cpp.llama_sampler_init_logit_bias(n_vocab, len(bias), entries)
    if params.penalises:
        last_n = _window(params.repeat_last_n, n_ctx)
        yield llama_cpp.llama_sampler_init_penalties(
            n_vocab, last_n, params.repeat_penalty, params.frequency_penalty, params.presence_penalty
        )
    if params.dry_multiplier:
        yield _dry(params, vocabulary, n_ctx)
    if params.greedy:
        yield from _infill(params, vocabulary)
        yield llama_cpp.llama_sampler_init_greedy()
    else:
        yield from _random_links(params, vocabulary)


def _random_links(params: SamplingParams, vocabulary: Vocabulary) -> Iterator[object]:
    seed = secrets.randbits(32) if params.seed is None else params.seed & 0xFFFFFFFF
    if params.mirostat:
        yield llama_cpp.llama_sampler_init_temp(params.temperature)
        yield _mirostat(params, vocabulary.n_tokens, seed)
        return
    if params.top_n_sigma > 0:
        yield llama_cpp.llama_sampler_init_top_n_sigma(params.top_n_sigma)
    if params.top_k > 0:
        yield llama_cpp.llama_sampler_init_top_k(params.top_k)
    if params.typical_p < 1:
        yield llama_cpp.llama_sampler_init_typical(params.typical_p, _MIN_KEEP)
    if params.top_p < 1:
        yield llama_cpp.llama_sampler_init_top_p(params.top_p, _MIN_KEEP)
    if params.min_p > 0:
        yield llama_cpp.llama_sampler_init_min_p(params.min_p, _MIN_KEEP)
    if params.xtc_probability > 0:
        yield llama_cpp.llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, _MIN_KEEP, seed)
    yield llama_cpp.llama_sampler_init_temp_ext(params.temperature, params.dynatemp_range, params.dynatemp_exponent)
    yield from _infill(params, vocabulary)
    yield llama_cpp.llama_sampler_init_dist(seed)


def _infill(params: SamplingParams, vocabulary: Vocabulary) -> Iterator[object]:
    """Where nothing is likely it chooses the end of an answer: without one, the library aborts."""
    if params.infill and vocabulary.eos is not None:
        # It compares every candidate with every other; of those further down none could be chosen.
        yield llama_cpp.llama_sampler_init_top_k(_INFILL_CANDIDATES)
        yield llama_cpp.llama_sampler_init_infill(vocabulary.pointer)


def _mirostat(params: SamplingParams, n_vocab: int, seed: int) -> object:
    if params.mirostat == 1:
        return llama_cpp.llama_sampler_init_mirostat(
            n_vocab, seed, params.mirostat_tau, params.mirostat_eta, _MIROSTAT_M
        )
    return llama_cpp.llama_sampler_init_mirostat_v2(seed, params.mirostat_tau, params.mirostat_eta)


def _dry(params: SamplingParams, vocabulary: Vocabulary, n_ctx: int) -> object:
    breakers = [text.encode() for text in params.dry_sequence_breakers]
    array = (ctypes.c_char_p * len(breakers))(*breakers)
    return llama_cpp.llama_sampler_init_dry(
        vocabulary.pointer,
        params.dry_multiplier,
        params.dry_base,
        params.dry_allowed_length,
        _window(params.dry_penalty_last_n, n_ctx),
        array,
        len(breakers),
    )
