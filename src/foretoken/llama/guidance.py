"""A model's vocabulary as llguidance sees it."""

from __future__ import annotations

import ctypes

import llama_cpp
from llguidance import LLTokenizer

from foretoken.llama.vocabulary import Vocabulary

_SPECIAL = b"\xff"
"""llguidance's mark for tokens that are no text: a grammar allows them only by name."""


def guidance_tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    """Tokens as the bytes a reader sees, so that a grammar speaks of the answer's text; not to outlive the model."""
    ends = vocabulary.end_tokens
    tokens = [
        _SPECIAL + vocabulary.piece(token) if token in ends or vocabulary.is_control(token) else vocabulary.piece(token)
        for token in range(vocabulary.n_tokens)
    ]
    # Missing in the package's own type hints.
    return LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]
        tokens=tokens,
        vocab_ptr=vocabulary.pointer,
        tokenize_fptr=ctypes.cast(llama_cpp.llama_cpp._lib.llama_tokenize, ctypes.c_void_p).value,
        eos_token=sorted(ends) or None,
    )
