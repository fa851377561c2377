"""Probabilities of tokens under the model itself, before any sampler touched them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretoken.llama.contenders import contenders, worth_it
from foretoken.types import Token


def logprobs(logits: NDArray[np.float32], token: Token, n_top: int) -> tuple[float, tuple[tuple[Token, float], ...]]:
    """The log probability of a token, and the `n_top` most likely tokens with theirs."""
    peak = logits.max()
    total = float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
    best = _best(logits, min(n_top, len(logits)))
    return float(logits[token]) - total, tuple((int(t), float(logits[t]) - total) for t in best)


def _best(logits: NDArray[np.float32], n: int) -> NDArray[np.intp]:
    """The `n` best tokens, the best first, equal ones in their order; a large vocabulary is not sorted for them."""
    if n <= 0:
        return np.empty(0, np.intp)
    if worth_it(len(logits), n):
        tokens, values = contenders(logits, n)
    else:
        tokens = np.flatnonzero(logits >= np.partition(logits, len(logits) - n)[len(logits) - n])
        values = logits[tokens]
    return tokens[np.argsort(-values, kind="stable")[:n]]
