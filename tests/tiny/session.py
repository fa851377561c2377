"""One loaded model and one context of it, as plain as libllama allows, for the tests of this package."""

import ctypes
from collections.abc import Sequence
from pathlib import Path

import llama_cpp as lib
import numpy as np
from llama_cpp import llama_cpp_ext as ext

from .tensors import Array
from .vocabulary import SIZE


class Session:
    """A model with one sequence of up to 1024 tokens, on one thread."""

    def __init__(self, path: Path, load_mtp: bool = False) -> None:
        """Loads the file."""
        lib.llama_backend_init()
        params = lib.llama_model_default_params()
        params.n_gpu_layers = 0
        params.load_mtp = load_mtp
        model = lib.llama_model_load_from_file(str(path).encode(), params)
        assert model, f"libllama does not load {path}"
        self.model = model
        self.context = self.new_context(lib.LLAMA_CONTEXT_TYPE_DEFAULT)
        self.memory = lib.llama_get_memory(self.context)
        self.vocab = lib.llama_model_get_vocab(model)

    def new_context(self, kind: int) -> lib.llama_context_p:
        """Makes a context of the model."""
        params = lib.llama_context_default_params()
        params.n_ctx = params.n_batch = 1024
        params.n_threads = params.n_threads_batch = 1
        params.ctx_type = kind
        context: lib.llama_context_p | None = lib.llama_init_from_model(self.model, params)
        assert context, "libllama makes no context"
        return context

    def close(self) -> None:
        """Gives everything back."""
        lib.llama_free(self.context)
        lib.llama_model_free(self.model)

    def clear(self) -> None:
        """Forgets everything decoded."""
        lib.llama_memory_clear(self.memory, True)

    def decode(self, tokens: Sequence[int], position: int = 0) -> Array:
        """Decodes tokens from a position on and returns the logits of every row."""
        decode(self.context, tokens, position)
        return np.array(lib.llama_get_logits(self.context)[: len(tokens) * SIZE], np.float32).reshape(-1, SIZE)

    def read(self, tokens: Sequence[int]) -> Array:
        """Decodes tokens into an empty memory and returns the logits of the last row."""
        self.clear()
        last: Array = self.decode(tokens)[-1]
        return last

    def greedy(self, tokens: Sequence[int], n: int) -> list[int]:
        """Continues tokens with the likeliest one n times."""
        logits = self.read(tokens)
        found: list[int] = []
        while len(found) < n:
            found.append(int(logits.argmax()))
            logits = self.decode(found[-1:], len(tokens) + len(found) - 1)[-1]
        return found

    def save_recurrent(self) -> bytes:
        """Copies what a hybrid remembers outside attention."""
        flag = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        size = lib.llama_state_seq_get_size_ext(self.context, 0, flag)
        room = (ctypes.c_uint8 * size)()
        assert lib.llama_state_seq_get_data_ext(self.context, room, size, 0, flag) == size
        return bytes(room)

    def load_recurrent(self, state: bytes) -> None:
        """Puts such a copy back."""
        room = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        flag = lib.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
        assert lib.llama_state_seq_set_data_ext(self.context, room, len(state), 0, flag) == len(state)

    def tokenise(self, text: str) -> list[int]:
        """Turns text into tokens, the special ones among them."""
        raw = text.encode()
        room = (lib.llama_token * (len(raw) + 1))()
        n = lib.llama_tokenize(self.vocab, raw, len(raw), room, len(room), False, True)
        assert n >= 0
        return list(room[:n])

    def detokenise(self, tokens: Sequence[int]) -> str:
        """Turns tokens into text, the special ones spelt out."""
        ids = (lib.llama_token * len(tokens))(*tokens)
        room = ctypes.create_string_buffer(64 * len(tokens) + 1)
        n = lib.llama_detokenize(self.vocab, ids, len(tokens), room, len(room), False, True)
        assert n >= 0
        return room.raw[:n].decode()

    def draft_head(self, tokens: Sequence[int]) -> Array:
        """Returns the logits of the multi-token-prediction head after reading tokens."""
        ext.llama_set_embeddings_nextn(self.context, True, False)
        self.read(tokens)
        width = lib.llama_model_n_embd(self.model)
        hidden = rows(ext.llama_get_embeddings_nextn(self.context), len(tokens), width)
        ext.llama_set_embeddings_nextn(self.context, False, False)
        context = self.new_context(lib.LLAMA_CONTEXT_TYPE_MTP)
        # Each token is read beside the hidden state of the one before it.
        decode(context, tokens[1:], 1, hidden[:-1])
        last: Array = rows(lib.llama_get_logits(context), len(tokens) - 1, SIZE)[-1]
        lib.llama_free(context)
        return last


def rows(start: "ctypes._Pointer[ctypes.c_float]", n: int, width: int) -> Array:
    """Copies n rows of floats out of libllama's memory."""
    return np.ctypeslib.as_array(start, (n, width)).copy()


def decode(context: lib.llama_context_p, tokens: Sequence[int], position: int, hidden: Array | None = None) -> None:
    """Decodes tokens of sequence 0, with the hidden states that a prediction head reads beside them."""
    batch = lib.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for i, token in enumerate(tokens):
        batch.token[i] = token
        batch.pos[i] = position + i
        batch.n_seq_id[i] = 1
        batch.seq_id[i][0] = 0
        batch.logits[i] = 1
    if hidden is not None:
        batch.embd = hidden.ctypes.data_as(ctypes.POINTER(ctypes.c_float))
    assert lib.llama_decode(context, batch) == 0
    batch.embd = None  # numpy's, not libllama's to free
    lib.llama_batch_free(batch)
