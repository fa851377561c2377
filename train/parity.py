"""Compare logits of a GGUF in libllama with PyTorch's: as a prompt, step by step, and of the MTP layer."""

import argparse
import ctypes
from pathlib import Path

import llama_cpp
import numpy as np
import torch
from llama_cpp import llama_cpp_ext
from numpy.typing import NDArray
from tokenizers import Tokenizer

from fetch import HERE
from weights import load_model

Logits = NDArray[np.float32]
LLAMA_CONTEXT_TYPE_MTP = 1


class Library:
    """A context of libllama over one file."""

    def __init__(self, path: Path, context: int, threads: int = 1, mtp: bool = False) -> None:
        llama_cpp.llama_backend_init()
        self.quiet = llama_cpp.llama_log_callback(lambda *_: None)
        llama_cpp.llama_log_set(self.quiet, ctypes.c_void_p())
        options = llama_cpp.llama_model_default_params()
        options.load_mtp = mtp
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        if not self.model:
            raise SystemExit(f"libllama cannot load {path}")
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx = settings.n_batch = settings.n_ubatch = context
        settings.n_threads = settings.n_threads_batch = threads
        self.settings = settings
        self.context = llama_cpp.llama_init_from_model(self.model, settings)
        self.vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(context, 0, 1)

    def clear(self) -> None:
        """Forget everything decoded so far."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)

    def decode(self, tokens: list[int], start: int, rows: int | None = None) -> Logits:
        """Decode tokens at positions from `start` on and return the logits of the last `rows`, or of all."""
        batch, first = self.batch, len(tokens) - (rows or len(tokens))
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, start + i, 1, i >= first
            batch.seq_id[i][0] = 0
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise SystemExit("libllama could not decode the batch")
        pointer = llama_cpp.llama_get_logits(self.context)
        return np.ctypeslib.as_array(pointer, (len(tokens) - first, self.vocabulary)).copy()

    def decode_mtp(self, tokens: list[int]) -> Logits:
        """Logits of the MTP layer for token i+2, from hidden state i and token i+1."""
        llama_cpp_ext.llama_set_embeddings_nextn(self.context, True, False)
        self.clear()
        self.decode(tokens, 0)
        count, width = len(tokens) - 1, llama_cpp.llama_model_n_embd(self.model)
        hidden = np.ctypeslib.as_array(
            llama_cpp_ext.llama_get_embeddings_nextn(self.context), (count, width)
        ).copy()
        self.settings.ctx_type = LLAMA_CONTEXT_TYPE_MTP
        context = llama_cpp.llama_init_from_model(self.model, self.settings)
        batch = llama_cpp.llama_batch_init(count, width, 1)
        following = (llama_cpp.llama_token * count)(*tokens[1:])
        batch.n_tokens, batch.token = count, following
        ctypes.memmove(batch.embd, hidden.ctypes.data, hidden.nbytes)
        for i in range(count):
            batch.pos[i], batch.n_seq_id[i], batch.logits[i], batch.seq_id[i][0] = i + 1, 1, 1, 0
        if llama_cpp.llama_decode(context, batch) != 0:
            raise SystemExit("libllama could not decode with the MTP layer")
        return np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), (count, self.vocabulary)).copy()

    def tokenize(self, text: str) -> list[int]:
        """Cut text into tokens, special ones included."""
        data = text.encode()
        buffer = (llama_cpp.llama_token * (len(data) + 8))()
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        count = llama_cpp.llama_tokenize(vocabulary, data, len(data), buffer, len(buffer), False, True)
        return list(buffer[:count])

    def text_of(self, tokens: list[int]) -> str:
        """Turn tokens back into text."""
        vocabulary = llama_cpp.llama_model_get_vocab(self.model)
        buffer = ctypes.create_string_buffer(256)
        pieces = []
        for token in tokens:
            count = llama_cpp.llama_token_to_piece(vocabulary, token, buffer, 256, 0, True)
            pieces.append(buffer.raw[:count])
        return b"".join(pieces).decode(errors="replace")


def compare(weights: Path, gguf: Path, tokens: list[int]) -> dict[str, float]:
    """The largest difference of any logit: as a prompt, step by step, and of the MTP layer."""
    model = load_model(weights).eval()
    given = torch.tensor([tokens])
    with torch.no_grad():
        hidden = model.hidden(given)
        ours = model.head(hidden)[0].numpy()
    library = Library(gguf, 64 * (len(tokens) // 64 + 1), mtp=model.config.mtp)
    differences = {"prompt": float(np.abs(ours - library.decode(tokens, 0)).max())}
    library.clear()
    steps = np.concatenate([library.decode([token], i) for i, token in enumerate(tokens)])
    differences["steps"] = float(np.abs(ours - steps).max())
    if model.config.mtp:
        with torch.no_grad():
            ahead = model.head(model.mtp_hidden(hidden[:, :-1], given[:, 1:]))[0].numpy()
        differences["mtp"] = float(np.abs(ahead - library.decode_mtp(tokens)).max())
    return differences


def main() -> None:
    """Compare and fail if the difference is too large."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    parser.add_argument("--text", type=Path, default=Path(__file__))
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=0.05)
    args = parser.parse_args()
    torch.set_num_threads(1)
    tokens = Tokenizer.from_file(str(args.tokenizer)).encode(args.text.read_text()).ids[: args.tokens]
    differences = compare(args.weights, args.gguf, tokens)
    print(
        f"largest difference over {len(tokens)} tokens:",
        ", ".join(f"{k} {v:.5f}" for k, v in differences.items()),
    )
    if max(differences.values()) > args.tolerance:
        raise SystemExit("the logits do not agree")


if __name__ == "__main__":
    main()
