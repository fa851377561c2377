"""Sampling from the few tokens that matter chooses what sampling from all of them chooses."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama import contenders as few
from foretoken.llama import sampler as chains
from foretoken.llama.context import Context
from foretoken.llama.rows import Rows
from foretoken.llama.sampler import LlamaSampler
from foretoken.types import SamplingParams
from tests.conftest import TinyModel


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, few._COLUMNS // 8),
    st.integers(16 * few._COLUMNS, 40 * few._COLUMNS),
    st.sampled_from(["normal", "ties", "minus infinity", "sorted"]),
)
def test_the_best_are_among_them(seed: int, k: int, n: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal(n).astype(np.float32)
    if shape == "ties":
        logits = np.round(logits)
    elif shape == "minus infinity":
        logits[rng.random(n) < 0.999] = -np.inf
    elif shape == "sorted":
        logits.sort()
    found = few.contenders(logits, k)
    assert (np.diff(found) > 0).all()
    kth = np.partition(logits, n - k)[n - k]
    assert set(np.flatnonzero(logits > kth)) <= set(found)
    assert (logits[found] >= kth).sum() >= k


def test_few_others_are_among_them() -> None:
    logits = np.random.default_rng(1).standard_normal(248320).astype(np.float32)
    assert 40 <= len(few.contenders(logits, 40)) < 60


def test_numbers_that_are_none_leave_everything() -> None:
    logits = np.full(16 * few._COLUMNS, np.nan, np.float32)
    assert len(few.contenders(logits, 40)) == len(logits)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.9, top_k=8, seed=7),
        SamplingParams(temperature=1.5, top_k=5, top_p=1, min_p=0, seed=7),
        SamplingParams(temperature=0.7, top_k=8, typical_p=0.6, dynatemp_range=0.3, seed=7),
        SamplingParams(temperature=1.2, top_k=8, xtc_probability=0.6, xtc_threshold=0.05, seed=7),
        SamplingParams(temperature=1, top_k=1, seed=7),
    ],
)
def test_same_choices_as_from_the_whole_vocabulary(
    tiny_model: TinyModel, params: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few, "_COLUMNS", 64)
    model, rng = tiny_model("qwen35"), random.Random(0)
    n_vocab = model.vocabulary.n_tokens
    with Context(model, ContextConfig(n_ctx=512, n_threads=1, n_outputs=64)) as context:
        context.decode([Span(0, 0, [rng.randrange(n_vocab) for _ in range(60)], 60, 0)])

        def chosen() -> list[int]:
            sampler = LlamaSampler(context.pointer, context._rows, model.vocabulary, 512, params, [])
            try:
                return [sampler.sample(row) for row in range(60)]
            finally:
                sampler.close()

        assert chains._n_best(params, n_vocab) == params.top_k
        from_few = chosen()
        monkeypatch.setattr(chains, "_n_best", lambda params, n_vocab: None)
        assert from_few == chosen()


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0),
        SamplingParams(temperature=1, top_k=0),
        SamplingParams(temperature=1, top_k=100_000),
        SamplingParams(temperature=1, top_n_sigma=1),
        SamplingParams(temperature=1, repeat_penalty=1.1),
        SamplingParams(temperature=1, dry_multiplier=1),
        SamplingParams(temperature=1, mirostat=2),
        SamplingParams(temperature=1, logit_bias={3: 1.0}),
        SamplingParams(temperature=1, banned=(3,)),
    ],
)
def test_chains_that_look_at_more_get_more(params: SamplingParams) -> None:
    assert chains._n_best(SamplingParams(temperature=1), 248320) == 40
    assert chains._n_best(params, 248320) is None


def test_small_vocabularies_are_sampled_whole() -> None:
    assert chains._n_best(SamplingParams(temperature=1), 8192) is None


def test_several_threads_find_the_same() -> None:
    rows = Rows(None, 64, 32768, helpers=True)
    logits = np.random.default_rng(2).standard_normal((64, 32768)).astype(np.float32)
    rows.decoded(range(64))
    rows._logits = logits
    for row in range(64):
        assert (rows.contenders(row, 40) == few.contenders(logits[row], 40)).all()
        assert rows.best(row) == logits[row].argmax()
    rows.close()
