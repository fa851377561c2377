"""The laws of taking tokens back.

For every memory: `rewind` reaches a position ≤ the one asked for; rewinding and decoding again equals a
fresh decode; neighbours are untouched; `protect` is idempotent; after `release` nothing is held; no two cells
ever hold the same (sequence, position).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Backend
from foretoken.errors import IntegrityError
from foretoken.types import SeqId


@dataclass(frozen=True, slots=True)
class Needs:
    """What a memory wants of the context it works in; None is "either way"."""

    unified: bool | None = None
    n_shadows: int = 0
    n_rollback: int = 0


class Memory(ABC):
    """A way to take tokens back from the sequences of one backend."""

    name: ClassVar[str]
    replays: ClassVar[bool] = False
    """Whether a rewind may reach less than was asked for, so that tokens are decoded again."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    @staticmethod
    @abstractmethod
    def refusal(recurrent: bool, n_parallel: int) -> str | None:
        """Why this memory cannot serve such a model with so many slots, or None if it can."""

    @staticmethod
    def needs(n_parallel: int, n_rollback: int) -> Needs:
        """The context this memory works in."""
        return Needs()

    @property
    def max_ahead(self) -> int | None:
        """How many of the latest tokens can be taken back at most; None is all since `protect`."""
        return None

    @abstractmethod
    def protect(self, seq: SeqId, position: int, n_ahead: int) -> None:
        """Keep `position`, where the sequence stands, within reach of the batch that adds `n_ahead` tokens."""

    @abstractmethod
    def reach(self, seq: SeqId, to: int) -> int:
        """The position that `rewind` would reach; changes nothing. Called with 0 < to < length."""

    @abstractmethod
    def _restore(self, seq: SeqId, position: int) -> None:
        """Bring the sequence back to a position that `reach` named."""

    def rewind(self, seq: SeqId, to: int) -> int:
        """Take tokens back so that at most `to` are held; returns how many are held now."""
        held = self.backend.length(seq)
        if to >= held:
            return held
        reached = self.reach(seq, to) if to > 0 else 0
        if reached == 0:
            self.release(seq)
        else:
            self._restore(seq, reached)
        return reached

    def release(self, seq: SeqId) -> None:
        """Forget everything about a sequence."""
        self._remove(seq, 0)
        self._unprotect(seq)

    def adopt(
        self, seq: SeqId, position: int, cells: NDArray[np.uint8] | None, state: NDArray[np.uint8] | None
    ) -> None:
        """Let a sequence stand at `position`, with a state exported there and cells of its own or of a longer text."""
        if cells is not None:
            self.release(seq)
        self._unprotect(seq)
        if cells is not None or state is not None:
            self.backend.restore(seq, cells, state)
        # Cells beyond the state would become duplicates of what is decoded next.
        self._remove(seq, position)

    def clone(self, source: SeqId, target: SeqId) -> None:
        """Let an idle sequence hold all that another holds."""
        self.release(target)
        self.backend.clone(source, target)

    @abstractmethod
    def _unprotect(self, seq: SeqId) -> None:
        """Let go of what `protect` kept, if anything."""

    def _remove(self, seq: SeqId, start: int) -> None:
        if not self.backend.remove(seq, start):
            raise IntegrityError(f"{self.name}: the library would not forget sequence {seq} from {start} on")


class SnapshotMemory(Memory):
    """Memories that keep one state per sequence and come back to that alone."""

    replays = True

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._protected: dict[SeqId, int] = {}

    @staticmethod
    def refusal(recurrent: bool, n_parallel: int) -> str | None:
        return None if recurrent else "this model has no recurrent state; trim is exact and free for it"

    def protect(self, seq: SeqId, position: int, n_ahead: int) -> None:
        if self._protected.get(seq) == position:
            return
        if (length := self.backend.length(seq)) != position:
            raise IntegrityError(f"{self.name}: sequence {seq} stands at {length}, not at {position}")
        if position > 0:
            self._save(seq)
        self._protected[seq] = position

    def reach(self, seq: SeqId, to: int) -> int:
        position = self._protected.get(seq, 0)
        return position if position <= to else 0

    def _unprotect(self, seq: SeqId) -> None:
        if self._protected.pop(seq, None):
            self._forget(seq)

    @abstractmethod
    def _save(self, seq: SeqId) -> None:
        """Keep the present state of a sequence, instead of any kept before."""

    @abstractmethod
    def _forget(self, seq: SeqId) -> None:
        """Let go of the kept state."""
