"""The tier on disk, as the engine's thread sees it: what is in which file, and what is being read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from foretoken.cache import files
from foretoken.cache.archive import Archive, Done
from foretoken.cache.tier import Newcomer, Tier
from foretoken.cache.tree import Entry
from foretoken.cache.worth import Worth

log = logging.getLogger("foretoken.cache")


@dataclass(eq=False, slots=True)
class Fetch:
    """What a prompt waits for: entries on their way from disk."""

    pending: set[Entry] = field(default_factory=set)


class Disk:
    """Keeps the books of an archive; the archive's thread does the work."""

    def __init__(self, archive: Archive, budget: int, worth: Worth) -> None:
        self.archive = archive
        self.tier = Tier(budget)
        self.n_read = 0
        """Entries brought back."""
        self._worth = worth
        self._reading: dict[Entry, list[Fetch]] = {}

    @property
    def n_bytes(self) -> int:
        """Everything in the folder, what is of no use here included."""
        return self.tier.n_bytes + self.archive.n_foreign_bytes

    def victims(self, entry: Entry, since: int | None) -> list[Entry] | None:
        """Whose files must go so that an entry can be written; files of no use go first."""
        size = files.file_size(entry.node.position, entry.n_bytes)
        if size > self.tier.budget:
            return None
        foreign = self.archive.foreign
        while foreign and self.n_bytes + size > self.tier.budget:
            self.archive.remove(foreign.popleft()[0])
        newcomer = Newcomer(size, self._worth.on_disk(entry), since)
        return self.tier.victims(newcomer, self._worth.on_disk, self.archive.n_foreign_bytes)

    def write(self, entry: Entry, owner: str) -> None:
        tokens = entry.node.tokens
        entry.file = self.archive.path_of(owner, tokens, entry.part)
        entry.n_users += 1
        self.tier.add(entry, files.file_size(len(tokens), entry.n_bytes))
        self.archive.write(entry, owner, tokens, entry.file)

    def read(self, entry: Entry, fetch: Fetch) -> None:
        """Have an entry read for someone who waits; its place on the host is taken already."""
        fetch.pending.add(entry)
        if entry not in self._reading:
            self._reading[entry] = []
            entry.n_users += 1
            self.archive.read(entry)
        self._reading[entry].append(fetch)

    def is_reading(self, entry: Entry) -> bool:
        return entry in self._reading

    def forget(self, entry: Entry) -> None:
        self.tier.drop(entry)
        if entry.file is not None:
            self.archive.remove(entry.file)
            entry.file = None

    def collect(self) -> Iterator[tuple[Entry, bool]]:
        """Entries that were written or read since last asked, and whether they are sound."""
        while not self.archive.done.empty():
            done = self.archive.done.get()
            done.entry.n_users -= 1
            waiting = self._reading.pop(done.entry, None)
            for fetch in waiting or ():
                fetch.pending.discard(done.entry)
            error = done.error or (self._take(done) if waiting is not None else None)
            if error is not None:
                log.warning("%s", error)
            yield done.entry, error is None

    def _take(self, done: Done) -> str | None:
        """Put what was read where it belongs; says why not, if it does not belong there."""
        entry, saved = done.entry, done.saved
        assert saved is not None
        if saved.fingerprint != self.archive.fingerprint or not np.array_equal(saved.tokens, entry.node.tokens):
            return f"ignored: {entry.file} is about something else"
        entry.data = saved.parts[entry.part]
        self.tier.touch(entry)
        self.n_read += 1
        return None
