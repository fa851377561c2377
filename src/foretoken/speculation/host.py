"""What the engine lends to drafters that need more than tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Backend, Span
from foretoken.memory import Memory
from foretoken.types import Token


class MtpBackend(Protocol):
    """The model's own multi-token-prediction layer in a context of its own."""

    @property
    def n_ctx(self) -> int: ...
    @property
    def n_batch(self) -> int: ...
    @property
    def n_embd(self) -> int: ...
    def target_hidden(self, span: Span) -> NDArray[np.float32]: ...
    def hidden(self, row: int) -> NDArray[np.float32]: ...
    def decode_after(self, spans: Sequence[Span], hidden: NDArray[np.float32]) -> None: ...
    def logits(self, row: int) -> NDArray[np.float32]: ...
    def length(self, seq: int) -> int: ...
    def remove(self, seq: int, start: int, end: int | None = None) -> bool: ...


class Host(Protocol):
    """Passed to drafters whose constructor has a parameter named `host`."""

    @property
    def n_slots(self) -> int: ...
    @property
    def end_tokens(self) -> frozenset[Token]:
        """Tokens that end an answer: the model's to say, so that a draft ends before one."""
        ...

    def draft_model(self) -> tuple[Backend, Memory]:
        """The draft model's own context and memory, opened on first use.

        Raises `ConfigError` when no draft model was named or its vocabulary differs from the model's.
        """
        ...

    def mtp(self) -> MtpBackend:
        """The model's multi-token-prediction layer; raises `ConfigError` when it has none."""
        ...
