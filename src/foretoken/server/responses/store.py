"""Responses that are kept: in SQLite, by owner, within bounds, across restarts."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from foretoken.errors import ConfigError
from foretoken.server.errors import ApiError
from foretoken.server.settings import ServerSettings

log = logging.getLogger("foretoken.server")

T = TypeVar("T")
Items = list[dict[str, Any]]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS responses (
    id TEXT PRIMARY KEY, owner TEXT NOT NULL, previous TEXT, used REAL NOT NULL, size INTEGER NOT NULL,
    input TEXT NOT NULL, body TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS responses_by_use ON responses (used, size);
"""
_CHAIN = """
WITH RECURSIVE chain (id, previous, depth) AS (
    SELECT id, previous, 0 FROM responses WHERE id = :id AND owner = :owner
    UNION ALL
    SELECT older.id, older.previous, depth + 1
    FROM responses AS older JOIN chain ON older.id = chain.previous WHERE older.owner = :owner
)
"""
_OLDEST = "SELECT id, size FROM responses ORDER BY used LIMIT 64"
_BUSY_SECONDS = 10.0
_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class Kept:
    """One stored response."""

    input: Items
    body: dict[str, Any]


class HistoryLost(Exception):
    """A response is there, but something said before it is not."""


class Store:
    """One file and one thread that reads and writes it, in the order it is asked to."""

    def __init__(self, path: Path, max_bytes: int, max_age: float) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._max_age = max_age
        self._thread = ThreadPoolExecutor(1, "foretoken-responses")
        self._database: sqlite3.Connection | None = None

    async def open(self) -> None:
        """Open the file, or make it; `ConfigError` says why that does not work."""
        await self._run(self._open)

    async def get(self, owner: str, name: str) -> Kept | None:
        """A response of this owner."""
        return await self._run(lambda: self._get(owner, name))

    async def history(self, owner: str, name: str, max_bytes: int) -> Items | None:
        """Everything said up to the end of a response; None when there is no such response."""
        return await self._run(lambda: self._history(owner, name, max_bytes))

    async def delete(self, owner: str, name: str) -> bool:
        """Forget a response; False when there is none."""
        return await self._run(lambda: self._delete(owner, name))

    def put(self, owner: str, previous: str | None, kept: Kept) -> None:
        """Keep a response; whoever asks for it after this finds it."""
        self._thread.submit(self._put, owner, previous, kept).add_done_callback(_report)

    async def close(self) -> None:
        """Write what is to be written, then close the file."""
        await self._run(self._close)
        self._thread.shutdown()

    async def _run(self, function: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function)
        except sqlite3.Error as error:
            raise ApiError(503, f"the responses in {self.path} cannot be used now: {error}", retry_after=5) from error

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # What people said is for nobody else on this machine to read.
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            database = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA secure_delete = ON")
            database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"responses cannot be kept in {self.path}: {error}") from None
        self._database = database
        self._make_room()

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
            self._database = None

    @property
    def _rows(self) -> sqlite3.Connection:
        if self._database is None:
            raise sqlite3.ProgrammingError("the store is closed")
        return self._database

    def _get(self, owner: str, name: str) -> Kept | None:
        query = "SELECT input, body FROM responses WHERE id = ? AND owner = ?"
        row = self._rows.execute(query, (name, owner)).fetchone()
        return Kept(json.loads(row[0]), json.loads(row[1])) if row else None

    def _history(self, owner: str, name: str, max_bytes: int) -> Items | None:
        place = {"id": name, "owner": owner}
        query = _CHAIN + "SELECT sum(size) FROM chain JOIN responses USING (id)"
        (size,) = self._rows.execute(query, place).fetchone()
        if size is None:
            return None
        if size > max_bytes:
            raise HistoryLost(f"the conversation up to {name} is longer than {max_bytes} bytes")
        self._rows.execute(
            _CHAIN + "UPDATE responses SET used = :now WHERE id IN (SELECT id FROM chain)",
            {**place, "now": time.time()},
        )
        query = _CHAIN + "SELECT r.input, r.body, r.previous FROM chain JOIN responses r USING (id) ORDER BY depth DESC"
        rows = self._rows.execute(query, place).fetchall()
        if (gone := rows[0][2]) is not None:
            raise HistoryLost(f"what {name} continues is not kept any more: {gone} was deleted or is too old")
        return [item for row in rows for item in (*json.loads(row[0]), *json.loads(row[1])["output"])]

    def _delete(self, owner: str, name: str) -> bool:
        query = "DELETE FROM responses WHERE id = ? AND owner = ?"
        return self._rows.execute(query, (name, owner)).rowcount > 0

    def _put(self, owner: str, previous: str | None, kept: Kept) -> None:
        said, body = json.dumps(kept.input), json.dumps(kept.body)
        size = len(said) + len(body)
        if size > self._max_bytes:
            raise ValueError(f"a response of {size} bytes is more than all responses may have ({self._max_bytes})")
        row = (kept.body["id"], owner, previous, time.time(), size, said, body)
        self._rows.execute("INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        self._make_room()

    def _make_room(self) -> None:
        """Forget what was not used for longest, until the rest is young and small enough."""
        self._rows.execute("DELETE FROM responses WHERE used < ?", (time.time() - self._max_age,))
        (size,) = self._rows.execute("SELECT coalesce(sum(size), 0) FROM responses").fetchone()
        while size > self._max_bytes and (oldest := self._rows.execute(_OLDEST).fetchall()):
            for name, freed in oldest:
                self._rows.execute("DELETE FROM responses WHERE id = ?", (name,))
                size -= freed
                if size <= self._max_bytes:
                    break


async def open_store(settings: ServerSettings) -> Store | None:
    """The store the settings ask for; only a file that was named must work."""
    if settings.responses_db == "none":
        return None
    named = settings.responses_db != "auto"
    path = Path(settings.responses_db) if named else _usual_path()
    store = Store(path, settings.responses_max_bytes, settings.responses_max_days * _DAY)
    try:
        await store.open()
    except ConfigError as error:
        await store.close()
        if named:
            raise
        log.warning("%s; none are kept", error)
        return None
    return store


def _usual_path() -> Path:
    base = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(base) / "foretoken" / "responses.db"


def _report(done: Future[None]) -> None:
    if error := done.exception():
        log.error("a response could not be kept: %s", error)
