"""The state tree at work: finds what a prompt can start from, keeps what will be needed again, stays in its budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from foretoken.backend import Part
from foretoken.cache.anchors import anchors
from foretoken.cache.archive import Archive
from foretoken.cache.disk import Disk, Fetch
from foretoken.cache.find import Finder, Reuse
from foretoken.cache.forest import owner_key
from foretoken.cache.holdings import Holdings
from foretoken.cache.telling import Telling
from foretoken.cache.thrift import Thrift
from foretoken.cache.tier import Newcomer
from foretoken.cache.tree import Bytes, Entry, Match, Node
from foretoken.cache.visits import Visits
from foretoken.config import CacheConfig
from foretoken.errors import DecodeError
from foretoken.ids import Ids, ids_of
from foretoken.memory import Memory
from foretoken.types import SeqId, Token

log = logging.getLogger("foretoken.cache")

_PAYS = 3.0
"""How many times as long as a copy the computation must take, so that copying what may never be asked for pays."""
_PROMPT_SHARE = 8
"""The regular states of one prompt take at most one part in so many of the budget."""
_MIN_SPACING = 512
_UNLIKELY = 0.1
"""The odds of a state inside a prompt, which only an edit wants, until it was used."""


@dataclass(frozen=True, slots=True)
class _Turn:
    """What a slot is busy with."""

    start: int = 0
    """Tokens that were found when it began."""
    since: int | None = None
    """The text's visit before, if nothing was left of it."""


class StateCache:
    """One tree per owner, all of them under one budget per tier; used by the engine's thread alone."""

    def __init__(self, memory: Memory, config: CacheConfig, archive: Archive | None = None) -> None:
        self.memory = memory
        self.backend = memory.backend
        self.config = config
        self._kept = Holdings(self.backend, config.n_host_bytes)
        self.host = self._kept.host
        self.thrift = Thrift()
        self.n_restored = 0
        """Tokens that were brought back from the host."""
        self._finder = Finder(self.backend)
        self._visits = Visits()
        self._turns: dict[SeqId, _Turn] = {}
        self._n_state_bytes = 0
        """Of one state, once one was seen."""
        self._telling = Telling()
        self.disk: Disk | None = None
        if archive is not None:
            self.disk = self._kept.disk = Disk(archive, config.n_disk_bytes, self._kept.worth)
            self._remember(archive)

    @property
    def on(self) -> bool:
        return self.host.budget > 0

    @property
    def n_bytes(self) -> int:
        """Everything held on the host, the tokens of the tree included."""
        return self.host.n_bytes + self._kept.forest.n_token_bytes

    def counters(self) -> dict[str, float]:
        """What is where, for whoever watches."""
        found: dict[str, float] = {
            "host_bytes": self.n_bytes,
            "host_budget_bytes": self.host.budget,
            "host_states": len(self.host),
            "host_evicted": self.host.n_evicted,
            "restored_tokens": self.n_restored,
            "copy_seconds": self.thrift.copied_ms / 1e3,
        }
        if self.disk is not None:
            found |= {
                "disk_bytes": self.disk.n_bytes,
                "disk_budget_bytes": self.disk.tier.budget,
                "disk_states": len(self.disk.tier),
                "disk_evicted": self.disk.tier.n_evicted,
                "disk_read": self.disk.n_read,
                "disk_read_seconds": self.disk.archive.read_seconds,
            }
        return found

    def n_kept_bytes(self, seq: SeqId) -> int:
        """Bytes on the host that belong to the text a slot holds."""
        node = self._kept.forest.pinned(seq)
        kept = [entry for above in node.path for entry in above.parts.values()] if node else []
        return sum(entry.n_bytes for entry in kept if entry.data is not None)

    # Finding

    def match(self, owner: str, text: Sequence[Token] | Ids) -> Match:
        """How a text runs through what is kept for its owner; nothing of anybody else's is looked at."""
        return self._kept.forest.match(owner_key(owner), ids_of(text))

    def best(self, match: Match, limit: int) -> Reuse:
        return self._finder.best(match, limit)

    def state_within(self, match: Match, limit: int) -> Reuse:
        return self._finder.state_within(match, limit)

    def fetch(self, match: Match, limit: int, beyond: int) -> Fetch | None:
        """Have read from disk what would take a prompt further than `beyond`; None when nothing would."""
        if self.disk is None:
            return None
        found = self._finder.best(match, limit, on_disk=True)
        if found.position - beyond < self.config.gap:
            return None
        fetch = Fetch()
        with found.in_use():
            for entry in found.entries:
                if entry.data is None and (self.disk.is_reading(entry) or self._reserve(entry)):
                    self.disk.read(entry, fetch)
        return fetch if fetch.pending else None

    def _reserve(self, entry: Entry) -> bool:
        """Take the place on the host that an entry will need."""
        if not self._kept.make_room(Newcomer(entry.n_bytes)):
            return False
        self.host.add(entry, entry.n_bytes)
        return True

    # Using

    def visit(self, seq: SeqId, owner: str, text: Sequence[Token] | Ids, n_found: int) -> None:
        """A slot begins with a text, and this much of it was found."""
        if not self.on:
            return
        before = self._visits.enter(owner_key(owner), ids_of(text))
        for tier in [self.host] + ([self.disk.tier] if self.disk else []):
            tier.visit = self._visits.number
        # A text that comes back and is gone: more take turns than there is room for. Whoever was used since its last
        # visit will be back as soon as this one, and to push it out would serve neither of them.
        gone = before is not None and before.n_tokens - n_found > self.config.gap
        self._turns[seq] = _Turn(n_found, before.number if before and gone else None)

    def apply(self, seq: SeqId, reuse: Reuse) -> int:
        """Bring a sequence to the position that was found; returns where it stands now."""
        try:
            self._apply(seq, reuse)
        except DecodeError as error:
            log.warning("%s; its text is read again", error)
            self.memory.release(seq)
            for entry in reuse.entries:
                self._kept.drop(entry)
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
            entry.odds = 1.0
            self.host.touch(entry)

    def pin(self, seq: SeqId, owner: str, text: Sequence[Token] | Ids) -> None:
        """A slot's own memory now holds this prefix, and nothing that it held before beyond it."""
        since = self._turn(seq).since
        node = self._kept.node(owner_key(owner), ids_of(text), since) if self.on and len(text) else None
        if node is not None:
            self._kept.forest.pin(seq, node)
        else:
            self.unpin(seq)

    def unpin(self, seq: SeqId) -> None:
        """A slot's memory holds nothing that others could use."""
        self._kept.forest.unpin(seq)

    # Keeping

    def anchors(self, ends: Sequence[int], start: int, length: int) -> list[int]:
        """Where a prompt that is read from `start` on should stop for its state to be kept."""
        if not (self.on and self.backend.recurrent):
            return []
        n_bytes = self._n_state_bytes
        spacing = max(
            _MIN_SPACING,
            self.thrift.spacing(n_bytes),
            length * n_bytes * _PROMPT_SHARE // self.host.budget,
        )
        return anchors(ends, start, length, self.config.gap, spacing, self.config.n_checkpoints)

    def keep_state(self, seq: SeqId, owner: str, text: Sequence[Token], likely: bool) -> None:
        """Keep the recurrent state of a slot that stands at the end of this text; a likely one, whatever it takes."""
        if not self.on or not self.backend.recurrent:
            return
        key = owner_key(owner)
        node = self._kept.node(key, ids_of(text), self._turn(seq).since)
        if node is None:
            return
        self._kept.forest.pin(seq, node)
        if known := node.parts.get("state"):
            self.host.touch(known)
        elif (likely or self.thrift.affordable) and self._pays(seq, node):
            self._export(seq, key, node, "state", 1.0 if likely else _UNLIKELY)

    def _pays(self, seq: SeqId, node: Node) -> bool:
        """Whether copying a state takes less time than reading up to it again."""
        gain = node.position - self._kept.worth.restorable_above(node)
        return self.thrift.pays(gain, self.backend.export_size(seq, "state"), 1.0)

    def keep_all(self, seq: SeqId, owner: str, text: Sequence[Token], others_wait: bool) -> bool:
        """Keep the attention cells too; False when that has to wait until there is time for it."""
        if not self.on or len(text) < self.config.gap:
            return True
        if others_wait and not self.thrift.affordable:
            return False
        tokens = ids_of(text)
        key = owner_key(owner)
        kept = self._finder.best(self.match(owner, tokens), len(tokens), without=seq, on_disk=True)
        gain = len(tokens) - kept.position
        n_bytes = sum(self.backend.export_size(seq, part) for part in self._parts)
        if gain < self.config.gap or not self.thrift.pays(gain, n_bytes, _PAYS):
            return True
        node = self._kept.node(key, tokens, self._turn(seq).since)
        if node is not None:
            self._kept.forest.pin(seq, node)
            for part in self._parts:
                if part not in node.parts and not self._export(seq, key, node, part, 1.0):
                    break
        return True

    @property
    def _parts(self) -> list[Part]:
        # The state first: cells that their slot still holds would be the first to go for it.
        parts: list[tuple[Part, bool]] = [("state", self.backend.recurrent), ("cells", self.backend.attention)]
        return [part for part, there in parts if there]

    def copy_out(self, seq: SeqId, text: Sequence[Token]) -> tuple[Ids, dict[Part, Bytes]]:
        """Everything a slot holds of this text, for somebody else to keep."""
        return ids_of(text), {part: self.backend.export(seq, part) for part in self._parts}

    def _export(self, seq: SeqId, key: str, node: Node, part: Part, odds: float) -> bool:
        """Copy a part of a sequence to the host, if it may have the room; from there it goes to disk."""
        turn = self._turn(seq)
        worth = self._kept.worth.of_new(node, part, odds)
        shorter = self._kept.shorter_cells(node) if part == "cells" else []
        if not self._kept.make_room(Newcomer(self.backend.export_size(seq, part), worth, turn.since, shorter)):
            return False
        self._kept.replace(shorter, self.disk is None)
        started = time.perf_counter()
        data = self.backend.export(seq, part)
        self.thrift.copied(data.nbytes, (time.perf_counter() - started) * 1e3)
        if part == "state":
            self._n_state_bytes = data.nbytes
            if odds == 1.0:
                self._supersede(node, turn.start)
        entry = self._kept.attach(node, Entry(node, part, data.nbytes, data, odds=odds))
        self.host.add(entry, data.nbytes)
        if self.disk is not None and (victims := self.disk.victims(entry, turn.since)) is not None:
            for other in victims:
                self._kept.leave_disk(other)
            self.disk.write(entry, key)
        return True

    def _supersede(self, node: Node, start: int) -> None:
        """What lies before the latest turn only an edit goes back to, unless others begin with it too."""
        for above in node.path:
            state = above.parts.get("state")
            if state is not None and above.position <= start and len(above.children) == 1:
                state.odds = _UNLIKELY

    def _turn(self, seq: SeqId) -> _Turn:
        return self._turns.get(seq, _Turn())

    # Disk

    def collect(self) -> None:
        """See what the disk has done."""
        if self._telling.due:
            self._telling.tell(self.counters())
        if self.disk is None:
            return
        for entry, sound in self.disk.collect():
            if not sound:
                self.disk.forget(entry)
                if entry.data is None:
                    self._kept.drop(entry)
            elif entry.part == "cells":
                # Only now: had the machine stopped before, the shorter ones would have been all there was.
                self._kept.replace(self._kept.shorter_cells(entry.node), for_good=True)

    def _remember(self, archive: Archive) -> None:
        """Put what is on disk from before into the tree."""
        assert self.disk is not None
        for found in archive.scan():
            node = self._kept.node(found.owner, found.tokens, None)
            if node is None or found.part in node.parts:
                archive.remove(found.path)
                continue
            entry = self._kept.attach(node, Entry(node, found.part, found.n_bytes, None, found.path))
            self.disk.tier.add(entry, found.n_file_bytes)
        for entry in self.disk.tier.victims(Newcomer(0), self._kept.worth.on_disk) or ():
            self._kept.leave_disk(entry)

    def flush(self, seconds: float) -> None:
        """Wait until what is kept is on disk."""
        if self.disk is not None:
            self.disk.archive.flush(seconds)

    def close(self) -> None:
        if self.disk is not None:
            self.disk.archive.close()
