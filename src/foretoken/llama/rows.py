"""A decoded batch's rows of logits, as they lie in the library's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.config import available_cores
from foretoken.errors import IntegrityError
from foretoken.llama.contenders import contenders
from foretoken.types import Token

_MOST_HELPERS = 8
_ROWS_EACH = 4
"""Fewer are looked through faster than anybody could be called to help."""

Look = Callable[[NDArray[np.float32]], Sequence[Any] | NDArray[np.intp]]
"""What is found in each of several rows."""


class Rows:
    """Finds rows again, and the best tokens of each.

    With `helpers` all rows are looked through at once by several threads: a quarter of a million logits take 40 µs,
    64 such rows a third of a small model's step. Where the model itself is computed on the cores, nobody is idle.
    """

    def __init__(self, context: object, n_rows: int, n_vocab: int, helpers: bool) -> None:
        self._context = context
        self._shape = (n_rows, n_vocab)
        self._numbers: dict[int, int] = {}
        self._chosen: frozenset[int] = frozenset()
        self._logits: NDArray[np.float32] | None = None
        self._found: dict[object, list[Any]] = {}
        self._views: dict[int, NDArray[np.float32]] = {}
        self._n_helpers = min(_MOST_HELPERS, available_cores() // 2) if helpers else 0
        self._helpers = ThreadPoolExecutor(self._n_helpers, "foretoken-rows") if self._n_helpers > 1 else None

    def decoded(self, rows: Iterable[int], chosen: Iterable[int] = ()) -> None:
        """A batch is under way in which these rows, in order, get logits; those `chosen` only a best token."""
        self._numbers = {row: number for number, row in enumerate(rows)}
        self._chosen = frozenset(chosen)
        self._logits = None
        self._found = {}

    def logits(self, row: int) -> NDArray[np.float32]:
        if row in self._chosen:
            raise IntegrityError(f"the logits of row {row} were not brought to the host, only its best token")
        view: NDArray[np.float32] = self._all()[self._numbers[row]]
        return view

    def best(self, row: int) -> Token:
        """One of a row's largest logits, always the same; the first unless the device chose."""
        if row in self._chosen:
            return self._told(row)
        return int(self._look("best", row, _best_of_each))

    def contenders(self, row: int, k: int) -> NDArray[np.intp]:
        """Some tokens of a row, in order, with the `k` best among them."""
        found: NDArray[np.intp] = self._look(k, row, partial(_contenders_of_each, k=k))
        return found

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.shutdown()

    def _look(self, key: object, row: int, look: Look) -> Any:
        logits, n_rows = self.logits(row), len(self._numbers)
        if self._helpers is None or n_rows < 2 * _ROWS_EACH:
            return look(logits[np.newaxis])[0]
        if key not in self._found:
            parts = np.array_split(self._all()[:n_rows], min(self._n_helpers, n_rows // _ROWS_EACH))
            self._found[key] = list(chain.from_iterable(self._helpers.map(look, parts)))
        return self._found[key][self._numbers[row]]

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

    def _told(self, row: int) -> Token:
        token = int(llama_cpp.llama_get_sampled_token_ith(self._context, row))
        if token < 0:
            raise IntegrityError(f"the device chose no token for row {row}")
        return token


def _best_of_each(rows: NDArray[np.float32]) -> NDArray[np.intp]:
    best: NDArray[np.intp] = rows.argmax(axis=1)
    return best


def _contenders_of_each(rows: NDArray[np.float32], k: int) -> list[NDArray[np.intp]]:
    return [contenders(row, k) for row in rows]
