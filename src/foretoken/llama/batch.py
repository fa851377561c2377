"""The arrays of a llama_batch, allocated once and filled for every step."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llama_cpp
import numpy as np

from foretoken.backend import Span


class Batch:
    """Turns spans into the struct that libllama decodes."""

    def __init__(self, n_rows: int, n_sequences: int) -> None:
        self._token = np.zeros(n_rows, np.int32)
        self._pos = np.zeros(n_rows, np.int32)
        self._n_seq_id = np.ones(n_rows, np.int32)
        self._logits = np.zeros(n_rows, np.int8)
        # Each row points at its sequence's number in this little table.
        self._seq_ids = np.arange(n_sequences, dtype=np.int32)
        self._seq_id = np.zeros(n_rows, np.uintp)
        self._places = [self._seq_ids.ctypes.data + seq * self._seq_ids.itemsize for seq in range(n_sequences)]
        self._struct = llama_cpp.llama_batch(
            0,
            _pointer(self._token, ctypes.c_int32),
            None,
            _pointer(self._pos, ctypes.c_int32),
            _pointer(self._n_seq_id, ctypes.c_int32),
            _pointer(self._seq_id, ctypes.POINTER(ctypes.c_int32)),
            _pointer(self._logits, ctypes.c_int8),
        )

    def attach(self, hidden: object | None) -> None:
        """Let the next fill carry hidden states beside its tokens."""
        self._struct.embd = hidden

    def fill(self, spans: Sequence[Span]) -> llama_cpp.llama_batch:
        """The struct for these spans, whose rows must follow each other; valid until the next fill."""
        # Gathered in lists first: an assignment to an array costs as much for one row as for a hundred.
        tokens: list[int] = []
        positions: list[int] = []
        places: list[int] = []
        wanted: list[int] = []
        for span in spans:
            n = len(span.tokens)
            tokens += span.tokens
            positions += range(span.start, span.start + n)
            places += [self._places[span.seq]] * n
            wanted += [0] * (n - span.n_outputs) + [1] * span.n_outputs
        n_rows = len(tokens)
        self._token[:n_rows] = tokens
        self._pos[:n_rows] = positions
        self._seq_id[:n_rows] = places
        self._logits[:n_rows] = wanted
        self._struct.n_tokens = n_rows
        return self._struct


def _pointer(array: np.ndarray, kind: type) -> object:
    return array.ctypes.data_as(ctypes.POINTER(kind))
