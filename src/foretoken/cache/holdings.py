"""What is kept and where: an entry comes into the tree, leaves the host or the disk, or goes for good."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.backend import Backend
from foretoken.cache.disk import Disk
from foretoken.cache.forest import Forest
from foretoken.cache.tier import Newcomer, Tier
from foretoken.cache.tree import Entry, Node
from foretoken.cache.worth import Worth
from foretoken.ids import Ids

_BESIDE = 20
"""One part in so many of the budget is left to what keeping takes beside the bytes kept: objects, holes in the heap."""


class Holdings:
    """The trees and the tiers their entries are in, kept in step with each other."""

    def __init__(self, backend: Backend, n_host_bytes: int) -> None:
        self.host = Tier(n_host_bytes)
        self.disk: Disk | None = None
        self.forest = Forest()
        self.worth = Worth(backend)
        self._backend = backend
        self._n_beside = n_host_bytes // _BESIDE

    def attach(self, node: Node, entry: Entry) -> Entry:
        node.parts[entry.part] = entry
        if entry.part == "cells":
            node.count_source(1)
        return entry

    def shorter_cells(self, node: Node) -> list[Entry]:
        """Cells of a longer text hold those of its beginnings."""
        if not self._backend.cells_complete:
            return []
        kept = [above.parts.get("cells") for above in list(node.path)[1:]]
        return [cells for cells in kept if cells is not None and not cells.n_users]

    def replace(self, shorter: Sequence[Entry], for_good: bool) -> None:
        for cells in shorter:
            self.drop(cells) if for_good else self.leave_host(cells)

    def make_room(self, newcomer: Newcomer) -> bool:
        beside = self.forest.n_token_bytes + self._n_beside
        victims = self.host.victims(newcomer, self.worth.on_host, beside)
        for entry in victims or ():
            self.leave_host(entry)
        return victims is not None

    def leave_host(self, entry: Entry) -> None:
        self.host.drop(entry)
        entry.data = None
        if entry.file is None:
            self.drop(entry)

    def leave_disk(self, entry: Entry) -> None:
        assert self.disk is not None
        self.disk.forget(entry)
        if entry.data is None:
            self.drop(entry)

    def drop(self, entry: Entry) -> None:
        """Forget an entry for good."""
        self.host.drop(entry)
        entry.data = None
        if self.disk is not None:
            self.disk.forget(entry)
        node = entry.node
        if node.parts.get(entry.part) is not entry:
            return
        del node.parts[entry.part]
        if entry.part == "cells":
            node.count_source(-1)
        self.forest.prune(node)

    def node(self, key: str, text: Ids, since: int | None) -> Node | None:
        """The node of a prefix, made if there is room for its tokens."""
        n_new = len(text) - self.forest.match(key, text).depth
        if n_new and not self.make_room(Newcomer(n_new * text.itemsize, since=since)):
            return None
        return self.forest.insert(key, text)
