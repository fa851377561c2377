"""The state tree at work: finds what a prompt can start from, keeps what will be needed again, stays in its budget."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from foretoken.backend import Part
from foretoken.cache.anchors import anchors
from foretoken.cache.thrift import Thrift
from foretoken.cache.tier import Tier
from foretoken.cache.tree import Bytes, Entry, Match, Node, Tokens, Tree
from foretoken.config import CacheConfig
from foretoken.errors import DecodeError
from foretoken.memory import Memory
from foretoken.types import SeqId, Token

log = logging.getLogger("foretoken.cache")

_PAYS = 3.0
"""How many times as long as a copy the computation must take, so that copying what may never be asked for pays."""
_PROMPT_SHARE = 8
"""The regular states of one prompt take at most one part in so many of the budget."""
_MIN_SPACING = 512
_ON_DISK_TOO = 0.1
"""What an entry on the host is worth when a copy on disk would stay."""


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


class StateCache:
    """One tree per owner, all of them under one budget; used by the engine's thread alone."""

    def __init__(self, memory: Memory, config: CacheConfig) -> None:
        self.memory = memory
        self.backend = memory.backend
        self.config = config
        self.host = Tier(config.n_host_bytes)
        self.thrift = Thrift()
        self.n_restored = 0
        """Tokens that were brought back from the host."""
        self._trees: dict[str, Tree] = {}
        self._pins: dict[SeqId, tuple[str, Node]] = {}

    @property
    def on(self) -> bool:
        return self.host.budget > 0

    @property
    def n_bytes(self) -> int:
        """Everything held on the host, the tokens of the tree included."""
        return self.host.n_bytes + self._n_token_bytes

    @property
    def _n_token_bytes(self) -> int:
        return sum(tree.n_token_bytes for tree in self._trees.values())

    # Finding

    def match(self, owner: str, text: Sequence[Token] | Tokens) -> Match:
        return self._trees.get(owner, _NOTHING).match(np.asarray(text, np.int32))

    def best(self, match: Match, limit: int, without: SeqId | None = None) -> Reuse:
        """The longest prefix, of at most `limit` tokens, that can be had from the host or from some slot."""
        if not self.backend.recurrent and match.depth > 0:
            # Attention cells can be cut to any length.
            position = min(match.depth, limit)
            if found := self._with_cells(position, match.tip, None, without):
                return found
        for node in match.nodes:
            position = min(node.position, limit)
            state = self._state(node)
            if position == 0 or (self.backend.recurrent and (state is None or node.position > limit)):
                continue
            if not self.backend.attention:
                return Reuse(position, state)
            if found := self._with_cells(position, node, state, without):
                return found
        return Reuse(0)

    def state_within(self, match: Match, limit: int) -> Reuse:
        """The longest kept state of at most `limit` tokens, for a slot that has the attention cells itself."""
        for node in match.nodes:
            if node.position <= limit and (state := self._state(node)):
                return Reuse(node.position, state)
        return Reuse(0)

    def _state(self, node: Node) -> Entry | None:
        state = node.parts.get("state")
        return state if state is not None and state.data is not None else None

    def _with_cells(self, position: int, node: Node, state: Entry | None, without: SeqId | None) -> Reuse | None:
        """Where the attention cells of a prefix can be had: from a slot, which moves fewer bytes, or from the host."""
        if not node.n_sources:
            return None
        kept: Entry | None = None
        for below in node.below():
            for slot in below.slots:
                if slot != without and self.backend.length(slot) >= position:
                    return Reuse(position, state, slot=slot)
            cells = below.parts.get("cells")
            usable = self.backend.cells_complete or below.position == position
            if cells and cells.data is not None and usable and (kept is None or cells.n_bytes < kept.n_bytes):
                kept = cells
        return Reuse(position, state, kept) if kept else None

    # Using

    @contextmanager
    def using(self, reuse: Reuse) -> Iterator[None]:
        """What was found stays where it is meanwhile."""
        for entry in reuse.entries:
            entry.n_users += 1
        try:
            yield
        finally:
            for entry in reuse.entries:
                entry.n_users -= 1

    def apply(self, seq: SeqId, reuse: Reuse) -> int:
        """Bring a sequence to the position that was found; returns where it stands now."""
        try:
            self._apply(seq, reuse)
        except DecodeError as error:
            log.warning("%s; its text is read again", error)
            self.memory.release(seq)
            for entry in reuse.entries:
                self._drop(entry)
            return 0
        return reuse.position

    def _apply(self, seq: SeqId, reuse: Reuse) -> None:
        state = reuse.state.data if reuse.state else None
        if reuse.cells is not None:
            self.memory.adopt(seq, reuse.position, reuse.cells.data, state)
            self.n_restored += reuse.position
        else:
            if reuse.slot is not None and reuse.slot != seq:
                self.memory.clone(reuse.slot, seq)
            self.memory.adopt(seq, reuse.position, None, state)
        for entry in reuse.entries:
            self.host.touch(entry)

    def pin(self, seq: SeqId, owner: str, text: Sequence[Token]) -> None:
        """A slot's own memory now holds this prefix, and nothing that it held before beyond it."""
        node = self._node(owner, np.asarray(text, np.int32)) if self.on and text else None
        if node is not None:
            self._pin(seq, owner, node)
        else:
            self.unpin(seq)

    def unpin(self, seq: SeqId) -> None:
        """A slot's memory holds nothing that others could use."""
        if pinned := self._pins.pop(seq, None):
            self._unpin(seq, *pinned)

    def _pin(self, seq: SeqId, owner: str, node: Node) -> None:
        before = self._pins.get(seq)
        if before is not None and before[1] is node:
            return
        self._pins[seq] = (owner, node)
        node.slots.add(seq)
        node.count_source(1)
        # Last: as long as it held nothing the new node could have gone with the old one.
        if before is not None:
            self._unpin(seq, *before)

    def _unpin(self, seq: SeqId, owner: str, node: Node) -> None:
        node.slots.discard(seq)
        node.count_source(-1)
        self._prune(owner, node)

    # Keeping

    def anchors(self, ends: Sequence[int], seq: SeqId, start: int, length: int) -> list[int]:
        """Where a prompt that is read from `start` on should stop for its state to be kept."""
        if not (self.on and self.backend.recurrent):
            return []
        n_bytes = self.backend.export_size(seq, "state") if start else 0
        spacing = max(
            _MIN_SPACING,
            self.thrift.spacing(n_bytes),
            length * n_bytes * _PROMPT_SHARE // self.host.budget,
        )
        return anchors(ends, start, length, self.config.gap, spacing, self.config.n_checkpoints)

    def keep_state(self, seq: SeqId, owner: str, text: Sequence[Token], must: bool) -> None:
        """Keep the recurrent state of a slot that stands at the end of this text."""
        if not self.on or not self.backend.recurrent:
            return
        node = self._node(owner, np.asarray(text, np.int32))
        if node is None:
            return
        self._pin(seq, owner, node)
        if known := node.parts.get("state"):
            self.host.touch(known)
        elif must or self.thrift.affordable:
            self._export(seq, owner, node, "state")

    def keep_all(self, seq: SeqId, owner: str, text: Sequence[Token], others_wait: bool) -> None:
        """Keep the attention cells too: this text is about to leave the device."""
        if not self.on or len(text) < self.config.gap:
            return
        tokens = np.asarray(text, np.int32)
        gain = len(tokens) - self.best(self.match(owner, tokens), len(tokens), without=seq).position
        n_bytes = sum(self.backend.export_size(seq, part) for part in self._parts)
        affordable = self.thrift.affordable or not others_wait
        if gain < self.config.gap or not affordable or not self.thrift.pays(gain, n_bytes, _PAYS):
            return
        node = self._node(owner, tokens)
        if node is None:
            return
        self._pin(seq, owner, node)
        for part in self._parts:
            if part not in node.parts and not self._export(seq, owner, node, part):
                break

    @property
    def _parts(self) -> list[Part]:
        parts: list[tuple[Part, bool]] = [("cells", self.backend.attention), ("state", self.backend.recurrent)]
        return [part for part, there in parts if there]

    def _export(self, seq: SeqId, owner: str, node: Node, part: Part) -> bool:
        """Copy a part of a sequence to the host, if it may have the room."""
        if part == "cells" and self.backend.cells_complete:
            self._drop_shorter_cells(owner, node)
        n_bytes = self.backend.export_size(seq, part)
        if not self._make_room(n_bytes, node.position - self._restorable_above(node)):
            self._prune(owner, node)
            return False
        started = time.perf_counter()
        data = self.backend.export(seq, part)
        self.thrift.copied(data.nbytes, (time.perf_counter() - started) * 1e3)
        self._add(node, part, data)
        return True

    def _add(self, node: Node, part: Part, data: Bytes) -> Entry:
        entry = node.parts[part] = Entry(node, part, data.nbytes, data)
        if part == "cells":
            node.count_source(1)
        self.host.add(entry)
        return entry

    def _drop_shorter_cells(self, owner: str, node: Node) -> None:
        """Cells of a longer text hold those of its beginnings."""
        for above in list(node.path)[1:]:
            if cells := above.parts.get("cells"):
                self._drop(cells, owner)

    # Forgetting

    def _make_room(self, n_bytes: int, worth: float) -> bool:
        victims = self.host.victims(n_bytes, worth, self._worth, self._n_token_bytes)
        for entry in victims or ():
            self._drop(entry)
        return victims is not None

    def _drop(self, entry: Entry, owner: str | None = None) -> None:
        """Forget an entry for good."""
        self.host.drop(entry)
        entry.data = None
        node = entry.node
        if node.parts.pop(entry.part, None) is not None and entry.part == "cells":
            node.count_source(-1)
        self._prune(owner if owner is not None else self._owner_of(node), node)

    def _owner_of(self, node: Node) -> str:
        root = list(node.path)[-1]
        return next(owner for owner, tree in self._trees.items() if tree.root is root)

    def _prune(self, owner: str, node: Node) -> None:
        tree = self._trees[owner]
        tree.prune(node)
        if tree.empty:
            del self._trees[owner]

    def _node(self, owner: str, text: Tokens) -> Node | None:
        """The node of a prefix, made if there is room for its tokens."""
        n_new = len(text) - self.match(owner, text).depth
        if n_new and not self._make_room(n_new * text.itemsize, math.inf):
            return None
        return self._trees.setdefault(owner, Tree()).insert(text)

    # What an entry is worth: the tokens that would have to be read again without it

    def _worth(self, entry: Entry) -> float:
        node = entry.node
        if entry.part == "state":
            useful = node.n_sources > 0 or not self.backend.attention
            worth = float(node.position - self._restorable_above(node)) if useful else 0.0
        else:
            worth = float(self._deepest(node, 0) - self._deepest(node, 1))
        return worth * (_ON_DISK_TOO if entry.data is not None and entry.file is not None else 1.0)

    def _deepest(self, node: Node, n_fewer: int) -> int:
        """How far this prefix could be restored if it had fewer sources of attention cells."""
        for above in node.path:
            known = "state" in above.parts or not self.backend.recurrent
            if known and above.n_sources > n_fewer:
                return above.position
        return 0

    def _restorable_above(self, node: Node) -> int:
        """The nearest position before a node that could be restored."""
        for above in list(node.path)[1:]:
            known = "state" in above.parts or not self.backend.recurrent
            if known and (above.n_sources or not self.backend.attention):
                return above.position
        return 0


_NOTHING = Tree()
