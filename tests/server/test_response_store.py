"""The store keeps what is young and fits, for its owner, and survives others using its file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from foretoken.errors import ConfigError
from foretoken.server.responses.store import HistoryLost, Kept, Store, open_store
from foretoken.server.settings import ServerSettings

DAY = 86400.0


def kept(name: str, text: str = "x") -> Kept:
    said = {"id": f"msg_{name}", "type": "message", "role": "user", "content": text}
    return Kept([said], {"id": name, "output": [{"id": f"out_{name}"}]})


def with_store(
    path: Path, use: Callable[[Store], Awaitable[Any]], max_bytes: int = 1 << 20, max_age: float = DAY
) -> Any:
    async def main() -> Any:
        store = Store(path, max_bytes, max_age)
        await store.open()
        try:
            return await use(store)
        finally:
            await store.close()

    return asyncio.run(main())


def names(items: list[dict[str, Any]] | None) -> list[str]:
    assert items is not None
    return [item["id"] for item in items]


def test_what_was_put_is_found_at_once_and_by_its_owner_only(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        store.put("me", None, kept("a"))
        store.put("me", "a", kept("b"))
        found = await store.get("me", "b")
        assert found == kept("b")
        assert names(await store.history("me", "b", 1 << 20)) == ["msg_a", "out_a", "msg_b", "out_b"]
        assert await store.get("you", "b") is None
        assert await store.history("you", "b", 1 << 20) is None
        assert not await store.delete("you", "b")
        assert await store.delete("me", "b")
        assert await store.get("me", "b") is None

    with_store(tmp_path / "r.db", use)


def test_a_chain_never_leads_into_anothers_conversation(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        store.put("you", None, kept("a"))
        store.put("me", "a", kept("b"))
        with pytest.raises(HistoryLost):
            await store.history("me", "b", 1 << 20)

    with_store(tmp_path / "r.db", use)


def test_the_least_used_goes_first_and_a_living_conversation_stays_whole(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        store.put("me", None, kept("a", "x" * 300))
        store.put("me", "a", kept("b", "x" * 300))
        for n in range(4):
            store.put("me", None, kept(f"other{n}", "x" * 300))
            assert await store.history("me", "b", 1 << 20)
        assert await store.get("me", "other0") is None
        assert await store.get("me", "other3") is not None

    with_store(tmp_path / "r.db", use, max_bytes=2000)


def test_what_is_too_old_is_forgotten(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        store.put("me", None, kept("a"))

    async def look(store: Store) -> Any:
        return await store.get("me", "a")

    with_store(tmp_path / "r.db", fill)
    assert with_store(tmp_path / "r.db", look) is not None
    assert with_store(tmp_path / "r.db", look, max_age=0.0) is None


def test_what_can_never_fit_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def use(store: Store) -> None:
        store.put("me", None, kept("a", "x" * 5000))
        assert await store.get("me", "a") is None

    logging.getLogger("foretoken").propagate = True
    with_store(tmp_path / "r.db", use, max_bytes=2000)
    assert "could not be kept" in caplog.text


def test_a_history_that_is_too_long_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def use(store: Store) -> None:
        store.put("me", None, kept("a", "x" * 5000))
        with pytest.raises(HistoryLost, match="longer than"):
            await store.history("me", "a", 2000)

    with_store(tmp_path / "r.db", use)


def test_two_servers_may_share_a_file(tmp_path: Path) -> None:
    async def main() -> None:
        stores = [Store(tmp_path / "r.db", 1 << 20, DAY) for _ in range(2)]
        for store in stores:
            await store.open()
        for n in range(40):
            stores[n % 2].put("me", None, kept(f"r{n}"))
        for n in range(40):
            # Each sees its own at once; the other's once that one has written.
            assert await stores[n % 2].get("me", f"r{n}")
        for n in range(40):
            assert await stores[1 - n % 2].get("me", f"r{n}")
        for store in stores:
            await store.close()

    asyncio.run(main())


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("this is no database, whatever its name may be" * 100)
    with pytest.raises(ConfigError, match="cannot be kept"):
        asyncio.run(open_store(ServerSettings(responses_db=str(path))))
    assert asyncio.run(open_store(ServerSettings(responses_db="none"))) is None


def test_the_usual_place_may_be_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "foretoken").write_text("in the way")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert asyncio.run(open_store(ServerSettings())) is None
