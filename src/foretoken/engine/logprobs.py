"""Probabilities of tokens under the model itself, before any sampler touched them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretoken.types import Token


def logprobs(logits: NDArray[np.float32], token: Token, n_top: int) -> tuple[float, tuple[tuple[Token, float], ...]]:
    """The log probability of a token, and the `n_top` most likely tokens with theirs."""
    values = logits.astype(np.float64)
    peak = values.max()
    values -= peak + np.log(np.exp(values - peak).sum())
    best = np.argsort(-values, kind="stable")[:n_top]
    return float(values[token]), tuple((int(t), float(values[t])) for t in best)
