"""A decoded batch's rows of logits, as they lie in the library's memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from math import exp
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.config import available_cores
from foretoken.errors import IntegrityError
from foretoken.llama.contenders import Contenders, contenders, contenders_in, piece_size
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
        self._kept: Mapping[int, int] = {}
        self._logits: NDArray[np.float32] | None = None
        self._found: dict[object, Any] = {}
        self._views: dict[str, tuple[int, NDArray[Any]]] = {}
        self._n_helpers = min(_MOST_HELPERS, available_cores() // 2) if helpers else 0
        self._helpers = ThreadPoolExecutor(self._n_helpers, "foretoken-rows") if self._n_helpers > 1 else None

    def decoded(self, rows: Sequence[int], kept: Mapping[int, int] | None = None) -> None:
        """A batch is under way in which these rows, in order, get logits; of those `kept` the device keeps so many
        pieces, or (0) only the best token."""
        self._numbers = dict(zip(rows, range(len(rows)), strict=True))
        self._kept = {} if kept is None else kept
        self._logits = None
        self._found = {}

    def logits(self, row: int) -> NDArray[np.float32]:
        if row in self._kept:
            raise IntegrityError(f"the logits of row {row} were not brought to the host, only the best of them")
        view: NDArray[np.float32] = self._all()[self._numbers[row]]
        return view

    def best(self, row: int) -> Token:
        """One of a row's largest logits, always the same; the first unless the device chose."""
        if row in self._kept:
            return self._told(row)
        if self._helpers is None:
            return int(self.logits(row).argmax())
        return int(self._look("best", row, _best_of_each))

    def certainty(self, row: int) -> float | None:
        """How likely a row's best token is beside the second; None where only the device knows."""
        if row in self._kept:
            return None
        logits = self.logits(row)
        best = int(logits.argmax())
        highest = float(logits[best])
        # In place and back again: to copy the row would take longer than to look through it.
        logits[best] = -np.inf
        second = float(logits[logits.argmax()])
        logits[best] = highest
        return 1.0 / (1.0 + exp(second - highest))

    def contenders(self, row: int, k: int) -> Contenders:
        """The `k` best tokens of a row, and their equals."""
        if row in self._kept:
            return self._in_pieces(row, k)
        found: Contenders = self._look(k, row, partial(_contenders_of_each, k=k))
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
            self._logits = self._view("logits", llama_cpp.llama_get_logits)
        return self._logits

    def _view(self, what: str, place: Callable[..., Any], row: int | None = None) -> NDArray[Any]:
        """What lies there for every row of the batch."""
        pointer = place(self._context) if row is None else place(self._context, row)
        if not pointer:
            raise IntegrityError(f"the device kept nothing of row {row}")
        address = ctypes.addressof(pointer.contents)
        if row is not None:
            address -= self._numbers[row] * self._shape[1] * ctypes.sizeof(pointer.contents)
        # The library seldom moves them, and making a view takes longer than asking where they are.
        known = self._views.get(what)
        if known is None or known[0] != address:
            start = ctypes.cast(address, type(pointer))
            known = self._views[what] = address, np.ctypeslib.as_array(start, self._shape)
        return known[1]

    def _told(self, row: int) -> Token:
        if self._kept[row]:
            tokens, logits = self._in_pieces(row, 1)
            return int(tokens[logits.argmax()])
        token = int(llama_cpp.llama_get_sampled_token_ith(self._context, row))
        if token < 0:
            raise IntegrityError(f"the device chose no token for row {row}")
        return token

    def _in_pieces(self, row: int, k: int) -> Contenders:
        n_kept = self._kept[row]
        if k > n_kept:
            raise IntegrityError(f"{k} tokens of row {row} are wanted, and the device kept {n_kept}")
        key = ("pieces", k, n_kept)
        if key not in self._found:
            self._found[key] = self._look_into_pieces(k, n_kept)
        found: Contenders = self._found[key][row]
        return found

    def _look_into_pieces(self, k: int, n_kept: int) -> dict[int, Contenders]:
        """In all rows of which the device kept so many pieces."""
        rows = [row for row, kept in self._kept.items() if kept == n_kept]
        numbers = [self._numbers[row] for row in rows]
        logits = self._view("kept", llama_cpp.llama_get_sampled_logits_ith, rows[0])
        order = self._view("order", llama_cpp.llama_get_sampled_candidates_ith, rows[0])
        # A slice, where they lie side by side, is not copied.
        side_by_side = numbers[-1] - numbers[0] + 1 == len(numbers)
        which = slice(numbers[0], numbers[-1] + 1) if side_by_side else numbers
        size = piece_size(self._shape[1])
        assert size is not None
        pieces = logits[which, : n_kept * size].reshape(len(rows), n_kept, size)
        return dict(zip(rows, contenders_in(pieces, order[which, :n_kept], k), strict=True))


def _best_of_each(rows: NDArray[np.float32]) -> NDArray[np.intp]:
    best: NDArray[np.intp] = rows.argmax(axis=1)
    return best


def _contenders_of_each(rows: NDArray[np.float32], k: int) -> list[Contenders]:
    return [contenders(row, k) for row in rows]
