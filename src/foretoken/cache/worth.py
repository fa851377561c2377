"""What an entry is worth: the tokens that would have to be read again without it, times how likely that is."""

from __future__ import annotations

from foretoken.backend import Backend, Part
from foretoken.cache.tree import Entry, Node

_ON_DISK_TOO = 0.1
"""What an entry on the host is worth when a copy on disk stays."""


class Worth:
    """Looks at what else is kept along an entry's path."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def on_host(self, entry: Entry) -> float:
        return self.on_disk(entry) * (1.0 if entry.file is None else _ON_DISK_TOO)

    def on_disk(self, entry: Entry) -> float:
        node = entry.node
        if entry.part == "state":
            useful = node.n_sources > 0 or not self._backend.attention
            return entry.odds * (node.position - self.restorable_above(node)) if useful else 0.0
        return float(self._deepest(node, 0) - self._deepest(node, 1))

    def of_new(self, node: Node, part: Part, odds: float) -> float:
        """What a copy of what a slot holds here will be worth once the slot is gone."""
        if part == "state":
            return odds * (node.position - self.restorable_above(node))
        return float(node.position - self._deepest(node, 1))

    def restorable_above(self, node: Node) -> int:
        """The nearest position before a node that could be restored."""
        if node.parent is None:
            return 0
        return self._deepest(node.parent, 0) if self._backend.attention else self._deepest_state(node.parent)

    def _deepest(self, node: Node, n_fewer: int) -> int:
        """How far this prefix could be restored if it had fewer sources of attention cells."""
        for above in node.path:
            known = "state" in above.parts or not self._backend.recurrent
            if known and above.n_sources > n_fewer:
                return above.position
        return 0

    def _deepest_state(self, node: Node) -> int:
        return next((above.position for above in node.path if "state" in above.parts), 0)
