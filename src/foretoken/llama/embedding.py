"""A context that turns whole texts into vectors instead of continuing them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.config import Pooling
from foretoken.errors import ContextError, DecodeError
from foretoken.llama import library
from foretoken.llama.batch import Batch
from foretoken.llama.model import Model
from foretoken.types import Token

Vectors = NDArray[np.float32]
"""One row for a text, or one for each of its tokens where nothing is pooled."""

POOLING: tuple[Pooling, ...] = ("none", "mean", "cls", "last", "rank")
"""In libllama's order."""


class EmbeddingContext:
    """Owns a libllama context that was made for embeddings."""

    def __init__(
        self, model: Model, pooling: Pooling, n_ctx: int, n_ubatch: int, n_threads: int, n_together: int = 1
    ) -> None:
        self.model = model
        self.pooling = pooling
        # Only what the last token knows may be computed piece by piece; the rest wants the whole text at once.
        self.n_max = n_ctx if pooling == "last" and model.generates else min(n_ctx, n_ubatch)
        self.n_together = n_together
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_outputs_max = self.n_max
        params.n_ubatch = min(n_ubatch, self.n_max)
        params.n_seq_max = self.n_together
        params.n_threads = params.n_threads_batch = n_threads
        params.embeddings = True
        params.pooling_type = POOLING.index(pooling)
        params.kv_unified = True
        params.no_perf = True
        with library.complaints() as heard:
            pointer = llama_cpp.llama_init_from_model(model.pointer, params)
        if not pointer:
            reason = library.reason(heard, "libllama gave no reason; there may be too little memory")
            raise ContextError(f"no context for embeddings of {self.n_max} tokens for {model.path.name}: {reason}")
        self._pointer: object | None = pointer
        self._memory = llama_cpp.llama_get_memory(pointer)
        self._batch = Batch(self.n_max, self.n_together)
        ranks = pooling == "rank"
        self.n_out = int(
            llama_cpp.llama_model_n_cls_out(model.pointer) if ranks else llama_cpp.llama_model_n_embd_out(model.pointer)
        )

    def embed(self, texts: Sequence[Sequence[Token]]) -> list[Vectors]:
        """Vectors of texts that fit together: at most `n_together`, with `n_max` tokens in all."""
        if self._memory:
            llama_cpp.llama_memory_clear(self._memory, False)
        spans = []
        n_rows = 0
        for number, tokens in enumerate(texts):
            spans.append(Span(number, 0, tokens, len(tokens), n_rows))
            n_rows += len(tokens)
        code = llama_cpp.llama_decode(self._pointer, self._batch.fill(spans))
        if code != 0:
            raise DecodeError(f"libllama could not compute embeddings: code {code}")
        return [self._vectors(span) for span in spans]

    def _vectors(self, span: Span) -> Vectors:
        if self.pooling == "none":
            rows = [llama_cpp.llama_get_embeddings_ith(self._pointer, row) for row in span.outputs]
        else:
            rows = [llama_cpp.llama_get_embeddings_seq(self._pointer, span.seq)]
        if not all(rows):
            raise DecodeError("libllama computed no embeddings")
        return np.stack([np.ctypeslib.as_array(row, (self.n_out,)) for row in rows])

    def close(self) -> None:
        if self._pointer is not None:
            pointer, self._pointer = self._pointer, None
            llama_cpp.llama_free(pointer)

    def __enter__(self) -> EmbeddingContext:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
