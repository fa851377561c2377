"""Probabilities of tokens under the model itself, before any sampler touched them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretoken.llama.contenders import contenders
from foretoken.types import Token


def logprobs(logits: NDArray[np.float32], token: Token, n_top: int) -> tuple[float, tuple[tuple[Token, float], ...]]:
    """The log probability of a token, and the `n_top` most likely tokens with theirs, equal ones in their order."""
    peak = logits.max()
    total = float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
    chosen = float(logits[token]) - total
    if n_top <= 0:
        return chosen, ()
    tokens, values = contenders(logits, n_top)
    best = np.argsort(-values, kind="stable")[:n_top]
    return chosen, tuple((int(tokens[i]), float(values[i]) - total) for i in best)
