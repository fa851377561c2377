"""Tokens and text: what a model's vocabulary says."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Protocol

import llama_cpp

from foretoken.errors import InvalidRequest
from foretoken.types import Token

_NONE = -1
_PART_BY_PART = (llama_cpp.LLAMA_VOCAB_TYPE_BPE, llama_cpp.LLAMA_VOCAB_TYPE_SPM)
"""Vocabularies that look at the text between two special tokens as if there were no other."""
_SPECIAL = (
    llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
)


class Owner(Protocol):
    """The model a vocabulary belongs to; its pointer raises once the model is closed."""

    @property
    def pointer(self) -> object: ...


class Vocabulary:
    """Reads the vocabulary of a loaded model, as long as that model is open."""

    def __init__(self, model: Owner) -> None:
        self._model = model
        self.n_tokens: int = llama_cpp.llama_vocab_n_tokens(self.pointer)
        self._pieces: dict[Token, bytes] = {}
        self._text_pieces: dict[Token, bytes] = {}

    @property
    def pointer(self) -> object:
        return llama_cpp.llama_model_get_vocab(self._model.pointer)

    def tokenize(self, text: str | bytes, *, special: bool = True, add_special: bool = True) -> list[Token]:
        """Tokens of a text; `special` reads <|im_end|> as one token, `add_special` adds BOS or EOS."""
        data = _utf8(text)
        size = len(data) + 16
        while True:
            buffer = _array_of(size)()
            n = llama_cpp.llama_tokenize(self.pointer, data, len(data), buffer, len(buffer), add_special, special)
            if n >= 0:
                return buffer[:n]
            size = -n

    def piece(self, token: Token) -> bytes:
        """The bytes a token stands for; special tokens stand for their names."""
        if token not in self._pieces:
            self._pieces[token] = self._piece(token)
        return self._pieces[token]

    def _piece(self, token: Token) -> bytes:
        size = 64
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = llama_cpp.llama_token_to_piece(self.pointer, token, buffer, size, 0, True)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def text_piece(self, token: Token) -> bytes:
        """The bytes of a token as a reader should see them: control tokens are invisible."""
        found = self._text_pieces.get(token)
        if found is None:
            found = self._text_pieces[token] = b"" if self.is_control(token) else self.piece(token)
        return found

    def detokenize(self, tokens: Iterable[Token]) -> str:
        return b"".join(self.piece(token) for token in tokens).decode("utf-8", "replace")

    def is_control(self, token: Token) -> bool:
        return bool(llama_cpp.llama_vocab_is_control(self.pointer, token))

    @cached_property
    def end_tokens(self) -> frozenset[Token]:
        """Every token that ends an answer."""
        return frozenset(t for t in range(self.n_tokens) if llama_cpp.llama_vocab_is_eog(self.pointer, t))

    @cached_property
    def separators(self) -> tuple[str, ...]:
        """End tokens that are told apart by their text wherever it stands, whatever stands before or behind it.

        A text may be cut in front of them and its parts tokenised one by one: all but the first without BOS or EOS.
        """
        if llama_cpp.llama_vocab_type(self.pointer) not in _PART_BY_PART or self.adds_eos:
            return ()
        special = {self._text(token) for token in range(self.n_tokens) if self._attributes(token) & _SPECIAL}
        texts = [self._text(token) for token in sorted(self.end_tokens) if self._separates(token)]
        return tuple(text.decode() for text in texts if all(_apart(text, other) for other in special - {text}))

    def _separates(self, token: Token) -> bool:
        attributes = self._attributes(token)
        control, strips = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL, llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP
        return bool(attributes & control and not attributes & strips and self.piece(token) == self._text(token))

    def _attributes(self, token: Token) -> int:
        return int(llama_cpp.llama_vocab_get_attr(self.pointer, token))

    def _text(self, token: Token) -> bytes:
        """A token as the file spells it, which is what special ones are recognised by."""
        return bytes(llama_cpp.llama_vocab_get_text(self.pointer, token))

    @property
    def bos(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_bos(self.pointer))

    @property
    def eos(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_eos(self.pointer))

    @property
    def separator(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_sep(self.pointer))

    @property
    def fim_prefix(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_fim_pre(self.pointer))

    @property
    def fim_suffix(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_fim_suf(self.pointer))

    @property
    def fim_middle(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_fim_mid(self.pointer))

    @property
    def fim_repository(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_fim_rep(self.pointer))

    @property
    def fim_separator(self) -> Token | None:
        return _known(llama_cpp.llama_vocab_fim_sep(self.pointer))

    @property
    def adds_bos(self) -> bool:
        return bool(llama_cpp.llama_vocab_get_add_bos(self.pointer))

    @property
    def adds_eos(self) -> bool:
        return bool(llama_cpp.llama_vocab_get_add_eos(self.pointer))

    @property
    def adds_separator(self) -> bool:
        return bool(llama_cpp.llama_vocab_get_add_sep(self.pointer))

    def same_as(self, other: Vocabulary) -> bool:
        """Whether every token means the same text in both vocabularies."""
        return self.n_tokens == other.n_tokens and all(
            self.piece(token) == other.piece(token) for token in range(self.n_tokens)
        )

    def check(self, tokens: Sequence[Token]) -> None:
        """Refuse tokens this vocabulary does not have."""
        if tokens and not (min(tokens) >= 0 and max(tokens) < self.n_tokens):
            wrong = next(token for token in tokens if not 0 <= token < self.n_tokens)
            raise InvalidRequest(f"token {wrong} is not in the vocabulary (0 to {self.n_tokens - 1})")


def _array_of(n: int) -> type[ctypes.Array[ctypes.c_int32]]:
    """An array type for at least so many tokens; each is a class, so there are only a few of them."""
    return _array_types(1 << max(6, (n - 1).bit_length()))


@cache
def _array_types(n: int) -> type[ctypes.Array[ctypes.c_int32]]:
    return ctypes.c_int32 * n


def _known(token: int) -> Token | None:
    return None if token == _NONE else int(token)


def _utf8(text: str | bytes) -> bytes:
    try:
        return text.encode() if isinstance(text, str) else text.decode("utf-8").encode()
    except (UnicodeEncodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"the text is not valid UTF-8: {error.reason} at {error.start}") from None


def _apart(text: bytes, other: bytes) -> bool:
    """Whether no place of a text can belong to both."""
    overlaps = any(text[:n] == other[-n:] or text[-n:] == other[:n] for n in range(1, min(len(text), len(other))))
    return not overlaps and text not in other
