"""Attention cells can simply be dropped from the end."""

from __future__ import annotations

from foretoken.memory.base import Memory
from foretoken.types import SeqId


class Trim(Memory):
    """Removes the tail: exact, free, attention-only models."""

    name = "trim"

    @staticmethod
    def refusal(recurrent: bool, n_parallel: int) -> str | None:
        return "a recurrent state cannot be trimmed" if recurrent else None

    def protect(self, seq: SeqId, position: int, n_ahead: int) -> None:
        pass

    def reach(self, seq: SeqId, to: int) -> int:
        return to

    def _restore(self, seq: SeqId, position: int) -> None:
        self._remove(seq, position)

    def _unprotect(self, seq: SeqId) -> None:
        pass
