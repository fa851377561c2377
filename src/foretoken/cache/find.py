"""What a prompt can start from: the longest prefix for which a state and attention cells are to be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from foretoken.backend import Backend
from foretoken.cache.tree import Entry, Match, Node
from foretoken.types import SeqId


@dataclass(frozen=True, slots=True)
class Reuse:
    """A position that a sequence can be brought to, and what from."""

    position: int
    state: Entry | None = None
    cells: Entry | None = None
    slot: SeqId | None = None
    """Whose attention cells are used, if they are still on the device."""

    @property
    def entries(self) -> list[Entry]:
        return [entry for entry in (self.state, self.cells) if entry is not None]

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """What was found stays where it is meanwhile."""
        for entry in self.entries:
            entry.n_users += 1
        try:
            yield
        finally:
            for entry in self.entries:
                entry.n_users -= 1


class Finder:
    """Knows what a model's memory is made of, and so which parts a prefix needs."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def best(self, match: Match, limit: int, without: SeqId | None = None, on_disk: bool = False) -> Reuse:
        """The longest prefix, of at most `limit` tokens, that can be had from the host or from some slot.

        `without` leaves out what one slot holds; `on_disk` counts what would have to be read first.
        """
        recurrent, attention = self._backend.recurrent, self._backend.attention
        if not recurrent:
            # Attention cells can be cut to any length.
            position = min(match.depth, limit)
            if position and (found := self._with_cells(position, match.tip, None, without, on_disk)):
                return found
        for node in match.nodes:
            position = min(node.position, limit)
            state = _usable(node.parts.get("state"), on_disk)
            if position == 0 or (recurrent and (state is None or node.position > limit)):
                continue
            if not attention:
                return Reuse(position, state)
            if found := self._with_cells(position, node, state, without, on_disk):
                return found
        return Reuse(0)

    def state_within(self, match: Match, limit: int) -> Reuse:
        """The longest kept state of at most `limit` tokens, for a slot that has the attention cells itself."""
        for node in match.nodes:
            if node.position <= limit and (state := _usable(node.parts.get("state"), on_disk=False)):
                return Reuse(node.position, state)
        return Reuse(0)

    def _with_cells(
        self, position: int, node: Node, state: Entry | None, without: SeqId | None, on_disk: bool
    ) -> Reuse | None:
        """Where the attention cells of a prefix can be had: from a slot, which moves fewer bytes, or as a copy."""
        kept: list[Entry] = []
        for below in node.sources():
            for slot in below.slots:
                if slot != without and self._backend.length(slot) >= position >= self._backend.floor(slot):
                    return Reuse(position, state, slot=slot)
            cells = _usable(below.parts.get("cells"), on_disk)
            if cells and (self._backend.cells_complete or below.position == position):
                kept.append(cells)
        if not kept:
            return None
        return Reuse(position, state, min(kept, key=lambda cells: (cells.data is None, cells.n_bytes)))


def _usable(entry: Entry | None, on_disk: bool) -> Entry | None:
    return entry if entry is not None and (on_disk or entry.data is not None) else None
