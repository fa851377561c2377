"""A copy of the recurrent state, on the device or on the host."""

from __future__ import annotations

from foretoken.backend import Backend, Place, Snapshot
from foretoken.memory.base import SnapshotMemory
from foretoken.types import SeqId


class Checkpoint(SnapshotMemory):
    """Copies the state next to where it lives: milliseconds, any number of slots, bit-exact."""

    name = "checkpoint"
    place: Place = "device"

    def __init__(self, backend: Backend) -> None:
        super().__init__(backend)
        self._snapshots: dict[SeqId, Snapshot] = {}

    def _save(self, seq: SeqId) -> None:
        self._snapshots[seq] = self.backend.save(seq, self.place)

    def _restore(self, seq: SeqId, position: int) -> None:
        self.backend.load(seq, self._snapshots[seq])
        # The snapshot holds no attention cells: those beyond it would become duplicates.
        self._remove(seq, position)

    def _forget(self, seq: SeqId) -> None:
        del self._snapshots[seq]


class HostCheckpoint(Checkpoint):
    """Copies the state to host memory: slow on a GPU, works everywhere."""

    name = "checkpoint-host"
    place: Place = "host"
