"""The shortest loop over libllama there is, to measure the engine against."""

from __future__ import annotations

import llama_cpp

from foretoken.llama.context import Context


class BareLoop:
    """Decodes one token per step on the first sequence, and nothing else: no batch building, no sampling."""

    def __init__(self, context: Context) -> None:
        self._context = context.pointer
        self._batch = llama_cpp.llama_batch_init(1, 0, 1)
        self._batch.n_tokens = 1
        self._batch.token[0] = 1
        self._batch.n_seq_id[0] = 1
        self._batch.seq_id[0][0] = 0
        self._batch.logits[0] = 1
        self._position = 0

    def step(self) -> None:
        self._batch.pos[0] = self._position
        if llama_cpp.llama_decode(self._context, self._batch) != 0:
            raise RuntimeError("libllama could not decode")
        # On a GPU the decode has only begun.
        llama_cpp.llama_synchronize(self._context)
        self._position += 1

    def close(self) -> None:
        llama_cpp.llama_batch_free(self._batch)
