"""Log probabilities are those of a softmax over the whole vocabulary, whatever shortcuts find the best of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.engine.logprobs import logprobs


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 5, 300, 8192, 20_000, 49_152]),
    st.sampled_from([0, 1, 5, 20, 300]),
    st.sampled_from(["normal", "ties", "minus infinity"]),
)
def test_as_by_the_book(seed: int, n_vocab: int, n_top: int, shape: str) -> None:
    rng = np.random.default_rng(seed)
    logits = (4 * rng.standard_normal(n_vocab)).astype(np.float32)
    if shape == "ties":
        logits = np.round(logits)
    elif shape == "minus infinity":
        logits[1:][rng.random(n_vocab - 1) < 0.9] = -np.inf
    token = int(rng.integers(n_vocab))
    exact = logits.astype(np.float64)
    exact -= exact.max() + np.log(np.exp(exact - exact.max()).sum())

    chosen, top = logprobs(logits, token, n_top)

    assert chosen == pytest.approx(exact[token], abs=1e-6)
    assert [found for found, _ in top] == np.argsort(-exact, kind="stable")[:n_top].tolist()
    assert [value for _, value in top] == pytest.approx([exact[found] for found, _ in top], abs=1e-6)
