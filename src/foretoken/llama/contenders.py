"""The few tokens that can be among the best of a large vocabulary, without sorting it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 1024


def worth_it(n_vocab: int, k: int) -> bool:
    """Whether looking through the logits twice takes less than copying and sorting them."""
    return n_vocab >= 16 * _COLUMNS and 0 < k <= _COLUMNS // 8


def contenders(logits: NDArray[np.float32], k: int) -> NDArray[np.intp]:
    """Tokens, in order, with the `k` best among them, and few others; everything if there are numbers that are none.

    The logits laid out in columns: the best of each column are as many tokens, so the k-th best of those is no better
    than the k-th best of all.
    """
    n_whole = len(logits) - len(logits) % _COLUMNS
    tops = logits[:n_whole].reshape(-1, _COLUMNS).max(axis=0)
    floor = np.partition(tops, _COLUMNS - k)[_COLUMNS - k]
    found = np.flatnonzero(logits >= floor)
    return found if len(found) >= k else np.arange(len(logits))
