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
from tests.allowed_tokens import Only
from tests.conftest import TinyModel


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, few._COLUMNS // 4),
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
    tokens, found = few.contenders(logits, k)
    assert (tokens == np.flatnonzero(logits >= np.partition(logits, n - k)[n - k])).all()
    assert (found == logits[tokens]).all()


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 40),
    st.integers(1, 5),
    st.sampled_from([(248320, 256), (151936, 128), (49152, 64), (131072, 128)]),
    st.booleans(),
)
def test_the_best_are_in_the_best_pieces(seed: int, k: int, n_rows: int, vocab: tuple[int, int], rough: bool) -> None:
    n_vocab, size = vocab
    assert few.piece_size(n_vocab) == size
    assert few.in_one_block(n_vocab) == (n_vocab != 151936)
    logits = np.random.default_rng(seed).standard_normal((n_rows, n_vocab)).astype(np.float32)
    if rough:
        logits = np.round(logits, 2)
    pieces = logits.reshape(n_rows, -1, size)
    order = np.argsort(-pieces.max(axis=2), axis=1)[:, : k + 8].astype(np.int32)
    found = few.contenders_in(np.take_along_axis(pieces, order[:, :, np.newaxis], axis=1), order, k)
    for row, (tokens, values) in zip(logits, found, strict=True):
        expected = few.contenders(row, k)
        if not rough:
            assert (tokens == expected[0]).all()
            assert (values == expected[1]).all()
        else:
            # More pieces than were kept may end in the same logit.
            assert set(tokens) <= set(expected[0])
            assert (np.sort(values)[-k:] == np.sort(expected[1])[-k:]).all()


@pytest.mark.parametrize("n_vocab", [201_089, 1_000_000])
def test_a_vocabulary_that_cannot_be_cut_stays_whole(n_vocab: int) -> None:
    assert few.piece_size(n_vocab) is None


def test_numbers_that_are_none_leave_everything() -> None:
    logits = np.full(16 * few._COLUMNS, np.nan, np.float32)
    assert len(few.contenders(logits, 40)[0]) == len(logits)
    kept = np.full((2, 48, 16), np.nan, np.float32)
    assert [
        len(tokens) for tokens, _ in few.contenders_in(kept, np.tile(np.arange(48, dtype=np.int32), (2, 1)), 40)
    ] == [768] * 2


@pytest.mark.parametrize("share", [None, 0.99, 0.8, 0.1, 0.01])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0.9, top_k=8, seed=7),
        SamplingParams(temperature=1.5, top_k=5, top_p=1, min_p=0, seed=7),
        SamplingParams(temperature=0.7, top_k=8, typical_p=0.6, dynatemp_range=0.3, seed=7),
        SamplingParams(temperature=1.2, top_k=8, xtc_probability=0.6, xtc_threshold=0.05, seed=7),
        SamplingParams(temperature=1, top_k=1, seed=7),
        SamplingParams(temperature=1, top_k=8, presence_penalty=1.5, repeat_last_n=6, seed=7),
        SamplingParams(temperature=1, top_k=6, repeat_penalty=1.4, frequency_penalty=0.5, repeat_last_n=8, seed=7),
        SamplingParams(temperature=1, top_k=6, repeat_penalty=0.7, presence_penalty=-1, repeat_last_n=8, seed=7),
        SamplingParams(temperature=0, presence_penalty=2, repeat_last_n=12),
        SamplingParams(temperature=1, top_k=8, logit_bias={5: 9.0, 6: -9.0, 7: 0.5}, banned=(11, 12), seed=7),
        SamplingParams(temperature=1, top_k=4, logit_bias={5: 9.0}, presence_penalty=2, repeat_last_n=8, seed=7),
    ],
)
def test_same_choices_as_from_the_whole_vocabulary(
    tiny_model: TinyModel, params: SamplingParams, share: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(few, "_COLUMNS", 64)
    monkeypatch.setattr(chains, "_SHORT", 20)
    model, rng = tiny_model("qwen35"), random.Random(0)
    n_vocab = model.vocabulary.n_tokens
    # What a grammar allows of the vocabulary, row by row.
    among = [share and Only(rng.sample(range(n_vocab), int(share * n_vocab))) for _ in range(60)]
    with Context(model, ContextConfig(n_ctx=512, n_threads=1, n_outputs=64)) as context:
        context.decode([Span(0, 0, [rng.randrange(n_vocab) for _ in range(60)], 60, 0)])

        def chosen(whole: bool) -> list[int]:
            sampler = LlamaSampler(context.pointer, context._rows, model.vocabulary, 512, params, list(range(20)))
            assert (sampler._n_best is None) == whole
            try:
                return [sampler.sample(row, among[row] or None) for row in range(60)]
            finally:
                sampler.close()

        from_few = chosen(whole=False)
        monkeypatch.setattr(chains, "worth_it", lambda n_vocab, k: False)
        assert from_few == chosen(whole=True)


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=0, infill=True),
        SamplingParams(temperature=1, top_k=0),
        SamplingParams(temperature=1, top_n_sigma=1),
        SamplingParams(temperature=1, repeat_penalty=1.1),
        SamplingParams(temperature=1, dry_multiplier=1),
        SamplingParams(temperature=1, mirostat=2),
        SamplingParams(temperature=1, logit_bias={3: 1.0}),
        SamplingParams(temperature=1, banned=(3,)),
    ],
)
def test_chains_that_look_at_more_get_more(params: SamplingParams) -> None:
    assert SamplingParams(temperature=1).n_best == 40
    assert params.n_best is None


def test_what_is_changed_is_looked_at_beside_the_best() -> None:
    assert SamplingParams(temperature=1, presence_penalty=1.5, logit_bias={3: 1.0}).n_best_untouched == 40
    assert SamplingParams(temperature=1, dry_multiplier=1).n_best_untouched is None


def test_small_vocabularies_are_sampled_whole() -> None:
    assert not few.worth_it(8192, 40)


def test_several_threads_find_the_same() -> None:
    rows = Rows(None, 64, 32768, helpers=True)
    logits = np.random.default_rng(2).standard_normal((64, 32768)).astype(np.float32)
    rows.decoded(range(64))
    rows._logits = logits
    for row in range(64):
        assert (rows.contenders(row, 40)[0] == few.contenders(logits[row], 40)[0]).all()
        assert rows.best(row) == logits[row].argmax()
    rows.close()
