"""A model's own multi-token-prediction layer: one more layer that guesses the token after next."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace

import llama_cpp
import numpy as np
from llama_cpp import llama_cpp_ext
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.errors import ConfigError, DecodeError
from foretoken.llama.context import Context

_TYPE_MTP = 1


class MtpContext(Context):
    """The layer's own context: every token goes in beside the hidden state of the token before it."""

    def __init__(self, target: Context) -> None:
        model = target.model
        if not model.n_mtp_layers:
            raise ConfigError(f"{model.path.name} has no multi-token-prediction layer")
        if not model.config.load_mtp:
            # libllama would abort the process.
            raise ConfigError(f"{model.path.name} was loaded without its multi-token-prediction layer")
        self._target = target
        super().__init__(model, replace(target.config, unified=True, n_shadows=0, n_rollback=0), ctx_type=_TYPE_MTP)
        # The layer is one of attention, whatever the model's others are.
        self.recurrent = False
        self.n_embd = int(llama_cpp.llama_model_n_embd_out(model.pointer))
        # Every row of both: asked for the sampled rows alone, the layer's context gives the first of the batch instead.
        llama_cpp_ext.llama_set_embeddings_nextn(target.pointer, True, False)
        llama_cpp_ext.llama_set_embeddings_nextn(self.pointer, True, False)

    def target_hidden(self, span: Span) -> NDArray[np.float32]:
        """The model's hidden states for a span of the batch it has just decoded, one row per token."""
        rows = llama_cpp_ext.llama_get_embeddings_nextn(self._target.pointer)
        end = span.first_row + len(span.tokens)
        return np.ctypeslib.as_array(rows, (end, self.n_embd))[span.first_row : end].copy()

    def hidden(self, row: int) -> NDArray[np.float32]:
        """The layer's own hidden state for a row of the batch it has just decoded."""
        pointer = llama_cpp_ext.llama_get_embeddings_nextn_ith(self.pointer, row)
        return np.ctypeslib.as_array(pointer, (self.n_embd,)).copy()

    def decode_after(self, spans: Sequence[Span], hidden: NDArray[np.float32]) -> None:
        """Decode tokens, each beside the hidden state of the token before it."""
        states = np.ascontiguousarray(hidden, np.float32)
        if states.shape != (sum(len(span.tokens) for span in spans), self.n_embd):
            raise DecodeError(f"hidden states of shape {states.shape} do not fit the batch")
        self._batch.attach(states.ctypes.data_as(ctypes.POINTER(ctypes.c_float)))
        try:
            self.decode(spans)
        finally:
            self._batch.attach(None)
