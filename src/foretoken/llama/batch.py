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
        row = 0
        for span in spans:
            end = row + len(span.tokens)
            self._token[row:end] = span.tokens
            self._pos[row:end] = range(span.start, span.start + len(span.tokens))
            self._seq_id[row:end] = self._seq_ids.ctypes.data + span.seq * self._seq_ids.itemsize
            self._logits[row : end - span.n_outputs] = 0
            self._logits[end - span.n_outputs : end] = 1
            row = end
        self._struct.n_tokens = row
        return self._struct


def _pointer(array: np.ndarray, kind: type) -> object:
    return array.ctypes.data_as(ctypes.POINTER(kind))
