"""Files of kept states in one folder, written and read by a thread of their own."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from foretoken.backend import Part
from foretoken.cache import files
from foretoken.cache.files import BrokenFile, Saved
from foretoken.cache.tree import Entry
from foretoken.errors import ConfigError
from foretoken.ids import Ids

log = logging.getLogger("foretoken.cache")


@dataclass(frozen=True, slots=True)
class Found:
    """A file from before this start that can be used."""

    path: Path
    owner: str
    tokens: Ids
    part: Part
    n_bytes: int
    n_file_bytes: int


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one entry: written, or read; `error` says why not."""

    entry: Entry
    saved: Saved | None = None
    error: str | None = None


class Archive:
    """A folder that one engine at a time uses; what it is told is done in order, and reported in `done`."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self.fingerprint = fingerprint
        self.done: queue.SimpleQueue[Done] = queue.SimpleQueue()
        self.wake: Callable[[], None] = lambda: None
        """Called when something was read for which the engine may be waiting."""
        self.foreign: deque[tuple[Path, int]] = deque()
        """Files that are of no use here, the oldest first: they count, and go first when room is needed."""
        self.read_seconds = 0.0
        """Spent on reading."""
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = _locked(folder)
        self._thread = threading.Thread(target=self._work, name="foretoken-archive", daemon=True)
        self._thread.start()

    @property
    def n_foreign_bytes(self) -> int:
        return sum(size for _, size in self.foreign)

    def scan(self) -> Iterator[Found]:
        """The files that this model can use; the others are remembered as foreign."""
        n_broken = 0
        for aside in self.folder.glob("*.tmp"):
            aside.unlink(missing_ok=True)
        for path in sorted(self.folder.glob(f"*{files.SUFFIX}"), key=_age):
            try:
                header, tokens, size = files.peek(path)
            except (BrokenFile, OSError) as error:
                n_broken += 1
                log.warning("ignored: %s", error)
                self._add_foreign(path)
                continue
            if header.fingerprint != self.fingerprint or len(header.sizes) != 1 or not len(tokens):
                self._add_foreign(path)
                continue
            ((part, n_bytes),) = header.sizes.items()
            yield Found(path, header.owner, tokens, part, n_bytes, size)
        if len(self.foreign) > n_broken:
            log.warning(
                "%d kept states in %s are of another model, library or setting and are not used",
                len(self.foreign) - n_broken, self.folder,
            )  # fmt: skip

    def _add_foreign(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            self.foreign.append((path, path.stat().st_size))

    def path_of(self, owner: str, tokens: Ids, part: Part) -> Path:
        name = hashlib.blake2b(tokens.tobytes(), key=owner.encode()[:64], person=part.encode(), digest_size=16)
        return self.folder / f"{self.fingerprint[:12]}-{name.hexdigest()}{files.SUFFIX}"

    def write(self, entry: Entry, owner: str, tokens: Ids, path: Path) -> None:
        data = entry.data
        assert data is not None
        saved = Saved(self.fingerprint, owner, tokens, {entry.part: data})

        def job() -> None:
            try:
                files.write(path, saved)
            except OSError as error:
                self.done.put(Done(entry, error=f"a state could not be written to {path}: {error.strerror}"))
            else:
                self.done.put(Done(entry))

        self._jobs.put(job)

    def read(self, entry: Entry) -> None:
        path = entry.file
        assert path is not None

        def job() -> None:
            started = time.perf_counter()
            try:
                saved = files.read(path)
                self.read_seconds += time.perf_counter() - started
                self.done.put(Done(entry, saved))
                # Who is read is young, also after the next restart.
                os.utime(path)
            except BrokenFile as error:
                self.done.put(Done(entry, error=f"ignored: {error}"))
            except OSError as error:
                self.done.put(Done(entry, error=f"a kept state could not be read from {path}: {error.strerror}"))
            self.wake()

        self._jobs.put(job)

    def remove(self, path: Path) -> None:
        self._jobs.put(lambda: path.unlink(missing_ok=True))

    def flush(self, seconds: float) -> None:
        """Wait until everything told so far is done, if that does not take too long."""
        reached = threading.Event()
        self._jobs.put(reached.set)
        reached.wait(seconds)

    def close(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        self._lock.close()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception:
                log.exception("a file of a kept state could not be handled")
            del job  # It holds what it wrote, which may have been evicted since.


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _locked(folder: Path) -> TextIO:
    """The folder made, and reserved for this process until it ends, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise ConfigError(f"states cannot be kept in {folder}: {error.strerror}; choose another --cache-path") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise ConfigError(f"{folder} is used by another server; give this one its own --cache-path") from None
    return lock
