"""The few tokens that can be among the best of a large vocabulary, without sorting it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

_COLUMNS = 1024
_BLOCK, _MOST_PIECES = 1024, 2048
"""What one block of a GPU sorts, and what several sort in little more time."""

Contenders = tuple[NDArray[np.intp], NDArray[np.float32]]
"""Tokens, in order, and their logits."""


def worth_it(n_vocab: int, k: int) -> bool:
    """Whether looking through the logits twice takes less than copying and sorting them."""
    return n_vocab >= 16 * _COLUMNS and 0 < k <= _COLUMNS // 4


def contenders(logits: NDArray[np.float32], k: int) -> Contenders:
    """The `k` best tokens and their equals; everything if there are numbers that are none.

    The logits laid out in columns: the best of each column are as many tokens, so the k-th best of those is no better
    than the k-th best of all.
    """
    if not worth_it(len(logits), k):
        return _best(np.arange(len(logits)), logits, k)
    n_whole = len(logits) - len(logits) % _COLUMNS
    tops = logits[:n_whole].reshape(-1, _COLUMNS).max(axis=0)
    floor = np.partition(tops, _COLUMNS - k)[_COLUMNS - k]
    found = np.flatnonzero(logits >= floor)
    if len(found) < k:
        return np.arange(len(logits)), logits
    return _best(found, logits.take(found), k)


def piece_size(n_vocab: int) -> int | None:
    """How many logits make a piece, for a device that says in which pieces the best tokens are; None: it cannot."""
    size = 1
    while n_vocab // size > _BLOCK and n_vocab % (2 * size) == 0:
        size *= 2
    return size if n_vocab // size <= _MOST_PIECES else None


def in_one_block(n_vocab: int) -> bool:
    """Whether one block of a GPU sorts all pieces of a row."""
    size = piece_size(n_vocab)
    return size is not None and n_vocab // size <= _BLOCK


def contenders_in(kept: NDArray[np.float32], order: NDArray[np.int32], k: int) -> list[Contenders]:
    """The `k` best tokens and their equals of each of several rows, of which the best pieces were kept.

    `kept[row, i]` is piece `order[row, i]`, the one with the best token first. Should more pieces than were kept share
    one and the same worst logit of the k best, those that were kept stand for the others.
    """
    n_rows, n_kept, size = kept.shape
    floors = kept[:, k - 1].max(axis=1)
    # Not "at least as good as", so that numbers that are none leave something to choose from.
    places = np.flatnonzero(~(kept < floors[:, np.newaxis, np.newaxis]))
    rows, inside = np.divmod(places, n_kept * size)
    pieces, offsets = np.divmod(inside, size)
    tokens = order[rows, pieces].astype(np.intp) * size + offsets
    logits = kept[rows, pieces, offsets]
    by_token = np.argsort((rows << 32) + tokens)
    tokens, logits = tokens[by_token], logits[by_token]
    ends = np.searchsorted(rows, np.arange(n_rows + 1)).tolist()
    return [_best(tokens[start:end], logits[start:end], k) for start, end in pairwise(ends)]


def _best(tokens: NDArray[np.intp], logits: NDArray[np.float32], k: int) -> Contenders:
    """The same tokens whoever found them: which of two equal ones is chosen depends on what lies around them."""
    if len(logits) <= k:
        return tokens, logits
    among = ~(logits < np.partition(logits, len(logits) - k)[len(logits) - k])
    return tokens[among], logits[among]
