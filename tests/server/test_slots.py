"""What slots hold, and what is kept of it: by hand through files, by itself through the state tree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from foretoken.config import CacheConfig
from foretoken.server.settings import ServerSettings
from tests.server.running import TIMEOUT, RunningServer, running, wait_until

PROMPT = list(range(40, 240))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("slots")


@pytest.fixture(scope="module")
def keeping(model_path: Path, folder: Path) -> Iterator[RunningServer]:
    settings = ServerSettings(api_keys=("alpha", "beta"), slot_save_path=folder, grace=2)
    cache = CacheConfig(1 << 20, gap=16)
    with running(model_path, settings, n_parallel=1, n_ctx=4096, cache=cache) as server:
        yield server


def post(server: RunningServer, path: str, key: str = "alpha", **body: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"}
    return httpx.post(f"{server.url}{path}", json=body, headers=headers, timeout=TIMEOUT)


def answer(server: RunningServer, prompt: list[int], key: str = "alpha", **fields: object) -> dict[str, Any]:
    body = {"prompt": prompt, "n_predict": 8, "temperature": 0, "ignore_eos": True, "return_tokens": True, **fields}
    found: dict[str, Any] = post(server, "/completion", key, **body).json()
    return found


def test_save_erase_restore(keeping: RunningServer, folder: Path) -> None:
    first = answer(keeping, PROMPT)
    saved = post(keeping, "/slots/0?action=save", filename="one.bin").json()
    assert saved["id_slot"] == 0
    assert saved["n_saved"] == len(PROMPT) + 7
    assert saved["n_written"] == (folder / "one.bin.slot").stat().st_size
    assert saved["timings"]["save_ms"] > 0
    assert post(keeping, "/slots/0?action=erase", "beta").json() == {"id_slot": 0, "n_erased": 0}
    assert post(keeping, "/slots/0?action=erase").json()["n_erased"] == len(PROMPT) + 8
    restored = post(keeping, "/slots/0?action=restore", filename="one.bin").json()
    assert restored["n_restored"] == saved["n_saved"]
    assert restored["n_read"] == saved["n_written"]
    second = answer(keeping, PROMPT + first["tokens"] + [50, 51])
    assert second["timings"]["cache_n"] == len(PROMPT) + 7
    plain = answer(keeping, PROMPT + first["tokens"] + [50, 51], cache_prompt=False)
    assert plain["timings"]["cache_n"] == 0
    assert plain["tokens"] == second["tokens"]


def test_a_file_is_its_owners(keeping: RunningServer) -> None:
    answer(keeping, PROMPT)
    assert post(keeping, "/slots/0?action=save", "beta", filename="theirs").status_code == 400
    assert post(keeping, "/slots/0?action=save", filename="mine").status_code == 200
    stolen = post(keeping, "/slots/0?action=restore", "beta", filename="mine")
    missing = post(keeping, "/slots/0?action=restore", "beta", filename="none")
    assert stolen.status_code == missing.status_code == 400
    assert stolen.json()["error"]["message"].replace("mine", "none") == missing.json()["error"]["message"]


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a\\b", "..", ".hidden", "", None, "x" * 300, "nul\x00", "new\nline", "/etc/passwd", 5]
)
@pytest.mark.parametrize("action", ["save", "restore"])
def test_names_that_lead_elsewhere_are_refused(keeping: RunningServer, folder: Path, name: object, action: str) -> None:
    before = set(folder.parent.rglob("*"))
    found = post(keeping, f"/slots/0?action={action}", filename=name)
    assert found.status_code == 400
    assert "filename" in found.json()["error"]["message"]
    assert set(folder.parent.rglob("*")) == before


def test_what_cannot_be_done_says_why(keeping: RunningServer, folder: Path) -> None:
    for path in ("/slots/7?action=erase", "/slots/x?action=erase", "/slots/0?action=eat", "/slots/0"):
        assert post(keeping, path).status_code == 400, path
    answer(keeping, PROMPT)
    assert post(keeping, "/slots/0?action=save", filename="cut").status_code == 200
    file = folder / "cut.slot"
    file.write_bytes(file.read_bytes()[:-100])
    assert "bytes long" in post(keeping, "/slots/0?action=restore", filename="cut").json()["error"]["message"]


def test_a_busy_slot_is_left_alone(keeping: RunningServer) -> None:
    headers = {"authorization": "Bearer alpha"}
    body = {"prompt": PROMPT, "n_predict": 3500, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", f"{keeping.url}/completion", json=body, headers=headers, timeout=TIMEOUT) as stream:
        lines = stream.iter_lines()
        next(lines)
        found = post(keeping, "/slots/0?action=erase")
    assert found.status_code == 503
    assert "answering" in found.json()["error"]["message"]


def test_without_a_folder(server: RunningServer) -> None:
    found = httpx.post(f"{server.url}/slots/0?action=save", json={"filename": "x"}, timeout=TIMEOUT)
    assert found.status_code == 501
    assert "--slot-save-path" in found.json()["error"]["message"]


def test_what_is_kept_is_shown(keeping: RunningServer) -> None:
    """Two conversations take turns in one slot: the second turn of each starts from the host, and one can see it."""
    talks = [list(range(start, start + 150)) for start in (60, 400)]
    for talk in talks:
        talk += answer(keeping, talk)["tokens"]
    for talk in talks:
        found = answer(keeping, [*talk, 77, 78])
        assert found["timings"]["cache_n"] == len(talk) - 1
    headers = {"authorization": "Bearer alpha"}
    metrics = httpx.get(f"{keeping.url}/metrics", headers=headers, timeout=TIMEOUT).text
    values = {line.split()[0]: float(line.split()[1]) for line in metrics.splitlines() if not line.startswith("#")}
    assert values["foretoken:cache_restored_tokens_total"] >= 2 * 150
    assert 0 < values["foretoken:cache_host_bytes"] <= values["foretoken:cache_host_budget_bytes"] == 1 << 20
    slots = httpx.get(f"{keeping.url}/slots", headers=headers, timeout=TIMEOUT).json()
    assert slots[0]["n_kept_bytes"] > 0


def test_n_cache_reuse_is_refused_where_a_state_cannot_be_moved(http: httpx.Client) -> None:
    found = http.post("/completion", json={"prompt": "x", "n_predict": 1, "n_cache_reuse": 256})
    assert found.status_code == 400
    assert "recurrent state" in found.json()["error"]["message"]
    assert http.post("/completion", json={"prompt": "x", "n_predict": 1, "n_cache_reuse": 0}).status_code == 200


def test_a_conversation_survives_the_death_of_the_worker(model_path: Path, tmp_path: Path) -> None:
    cache = CacheConfig(8 << 20, 8 << 20, tmp_path / "states", gap=16)
    with running(model_path, cache=cache) as server:
        first = answer(server, PROMPT)
        wait_until(lambda: len(list((tmp_path / "states").glob("*.state"))) >= 2, "the states to be written")
        before = server.worker.pid
        server.on_loop(server.worker._process.kill)
        wait_until(lambda: server.worker.pid not in (None, before) and server.healthy(), "another worker")
        second = answer(server, PROMPT + first["tokens"] + [50, 51])
    assert second["timings"]["cache_n"] == len(PROMPT) + 7
