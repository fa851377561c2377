"""A decoded batch's rows of logits, as they lie in the library's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.config import available_cores
from foretoken.types import Token

_MOST_HELPERS = 8
_ROWS_EACH = 4
"""Fewer are looked through faster than anybody could be called to help."""


class Rows:
    """Finds rows again, and the best token of each.

    With `helpers` all rows are looked through at once by several threads: a quarter of a million logits take 40 µs,
    64 such rows a third of a small model's step. Where the model itself is computed on the cores, nobody is idle.
    """

    def __init__(self, context: object, n_rows: int, n_vocab: int, helpers: bool) -> None:
        self._context = context
        self._shape = (n_rows, n_vocab)
        self._numbers: dict[int, int] = {}
        self._logits: NDArray[np.float32] | None = None
        self._best: NDArray[np.intp] | None = None
        self._views: dict[int, NDArray[np.float32]] = {}
        self._n_helpers = min(_MOST_HELPERS, available_cores() // 2) if helpers else 0
        self._helpers = ThreadPoolExecutor(self._n_helpers, "foretoken-rows") if self._n_helpers > 1 else None

    def decoded(self, rows: Iterable[int]) -> None:
        """A batch is under way in which these rows, in order, get logits."""
        self._numbers = {row: number for number, row in enumerate(rows)}
        self._logits = self._best = None

    def logits(self, row: int) -> NDArray[np.float32]:
        view: NDArray[np.float32] = self._all()[self._numbers[row]]
        return view

    def best(self, row: int) -> Token:
        """The first of a row's largest logits."""
        n_rows = len(self._numbers)
        if self._helpers is None or n_rows < 2 * _ROWS_EACH:
            return int(self.logits(row).argmax())
        if self._best is None:
            parts = np.array_split(self._all()[:n_rows], min(self._n_helpers, n_rows // _ROWS_EACH))
            self._best = np.concatenate(list(self._helpers.map(_best_of_each, parts)))
        return int(self._best[self._numbers[row]])

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()

    def _all(self) -> NDArray[np.float32]:
        """Every row that has logits, in the batch's order; waits for a device that still computes."""
        if self._logits is None:
            pointer = llama_cpp.llama_get_logits(self._context)
            address = ctypes.addressof(pointer.contents)
            # The library seldom moves them, and making a view takes longer than asking where they are.
            if address not in self._views:
                self._views = {address: np.ctypeslib.as_array(pointer, self._shape)}
            self._logits = self._views[address]
        return self._logits


def _best_of_each(rows: NDArray[np.float32]) -> NDArray[np.intp]:
    best: NDArray[np.intp] = rows.argmax(axis=1)
    return best
