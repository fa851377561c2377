"""A shadow sequence keeps the old recurrent state; the next decode writes to a copy."""

from __future__ import annotations

from foretoken.memory.base import Needs, SnapshotMemory
from foretoken.types import SeqId


class Fork(SnapshotMemory):
    """Shares the state with a shadow: microseconds, no bytes moved; needs one cell pool for all sequences."""

    name = "fork"

    @staticmethod
    def needs(n_parallel: int, n_rollback: int) -> Needs:
        return Needs(unified=True, n_shadows=n_parallel)

    def _shadow(self, seq: SeqId) -> SeqId:
        return self.backend.n_sequences + seq

    def _save(self, seq: SeqId) -> None:
        self.backend.share_state(seq, self._shadow(seq))

    def _restore(self, seq: SeqId, position: int) -> None:
        self.backend.share_state(self._shadow(seq), seq)
        # Attention cells beyond the state would become duplicates of what is decoded next.
        self._remove(seq, position)

    def _forget(self, seq: SeqId) -> None:
        self._remove(self._shadow(seq), 0)
