"""States of the last few tokens, kept by the graph itself."""

from __future__ import annotations

from foretoken.backend import Backend
from foretoken.errors import ConfigError
from foretoken.memory.base import Memory, Needs
from foretoken.types import SeqId


class Ring(Memory):
    """Rolls back exactly, a few tokens at most; one sequence only, and a price on every step."""

    name = "ring"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        if backend.n_rollback == 0:
            raise ConfigError("libllama keeps no states inside the graph for this architecture")
        self._latest: dict[SeqId, tuple[int, int]] = {}

    @staticmethod
    def refusal(recurrent: bool, n_parallel: int) -> str | None:
        if not recurrent:
            return "this model has no recurrent state; trim is exact and free for it"
        if n_parallel > 1:
            return "libllama mixes up the rolled-back states of several sequences; use it with one slot"
        return None

    @staticmethod
    def needs(n_parallel: int, n_rollback: int) -> Needs:
        return Needs(n_rollback=n_rollback)

    @property
    def max_ahead(self) -> int | None:
        return self.backend.n_rollback

    def protect(self, seq: SeqId, position: int, n_ahead: int) -> None:
        # States exist only for the tokens of the latest batch, which is the one announced here.
        self._latest[seq] = (position, position + n_ahead)

    def reach(self, seq: SeqId, to: int) -> int:
        start, end = self._latest.get(seq, (to, to))
        known = start < to and end == self.backend.length(seq)
        return to if known and end - to <= self.backend.n_rollback else 0

    def _restore(self, seq: SeqId, position: int) -> None:
        self._remove(seq, position)
        # A roll-back is single-use until the next decode.
        self._latest.pop(seq, None)

    def _unprotect(self, seq: SeqId) -> None:
        self._latest.pop(seq, None)
