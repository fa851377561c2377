"""Files of kept states: whole or not used at all."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.cache import files
from foretoken.cache.archive import Archive
from foretoken.cache.files import BrokenFile, Saved
from foretoken.errors import ConfigError

TOKENS = np.arange(300, dtype=np.int32)
SAVED = Saved("model", "ann", TOKENS, {"cells": np.arange(2000, dtype=np.uint8), "state": np.ones(64, np.uint8)})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.state"
    size = files.write(path, SAVED)
    assert size == path.stat().st_size <= files.file_size(300, 2064)
    found = files.read(path)
    assert (found.fingerprint, found.owner) == ("model", "ann")
    assert np.array_equal(found.tokens, TOKENS)
    assert all(np.array_equal(found.parts[part], SAVED.parts[part]) for part in ("cells", "state"))
    header, tokens, peeked = files.peek(path)
    assert (header.n_tokens, peeked) == (300, size)
    assert np.array_equal(tokens, TOKENS)
    assert path.stat().st_mode & 0o077 == 0, "prompts are nobody else's business"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("files") / "one.state"
    files.write(path, SAVED)
    return path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_flipped_bit_is_noticed(whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.getbasetemp() / "flipped.state"
    path.write_bytes(changed)
    with pytest.raises(BrokenFile):
        files.read(path)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_cut_or_a_foreign_file_is_noticed(
    whole: bytes, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = data.draw(st.integers(0, len(whole) - 1).map(lambda n: whole[:n]) | st.binary(max_size=200))
    path = tmp_path_factory.getbasetemp() / "cut.state"
    path.write_bytes(content)
    for reading in (files.read, files.peek):
        with pytest.raises(BrokenFile):
            reading(path)


def test_a_folder_full_of_strangers(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Foreign, broken and half-written files are left alone or swept up, each with a word about it."""
    one = Saved("model", "ann", TOKENS, {"state": np.ones(64, np.uint8)})
    files.write(tmp_path / "good.state", one)
    files.write(tmp_path / "foreign.state", Saved("another model", "ann", TOKENS, one.parts))
    (tmp_path / "broken.state").write_bytes(b"FORETOK1" + bytes(100))
    (tmp_path / "half.state.123.tmp").write_bytes(b"FORETOK1")
    (tmp_path / "notes.txt").write_text("mine")
    with caplog.at_level(logging.WARNING):
        archive = Archive(tmp_path, "model")
        found = list(archive.scan())
    assert [one.path.name for one in found] == ["good.state"]
    assert {path.name for path, _ in archive.foreign} == {"foreign.state", "broken.state"}
    assert "no readable header" in caplog.text
    assert "another model" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "broken.state", "foreign.state", "good.state", "lock", "notes.txt",
    ]  # fmt: skip
    archive.close()


def test_two_servers_do_not_share_a_folder(tmp_path: Path) -> None:
    archive = Archive(tmp_path, "model")
    with pytest.raises(ConfigError, match="another server"):
        Archive(tmp_path, "model")
    archive.close()
    Archive(tmp_path, "model").close()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="--cache-path"):
        Archive(tmp_path / "file" / "states", "model")


_WRITER = """
import sys, numpy as np
from pathlib import Path
from foretoken.cache import files
folder, n = Path(sys.argv[1]), 0
data = np.random.default_rng(0).integers(0, 255, 1 << 20, dtype=np.uint8)
print("ready", flush=True)
while True:
    tokens = np.arange(n % 7 + 1, dtype=np.int32)
    files.write(folder / f"{n % 7}.state", files.Saved("model", "ann", tokens, {"state": data}))
    n += 1
"""


def test_killed_while_writing(tmp_path: Path) -> None:
    """Whatever is there under its name afterwards is whole; the rest is swept up at the next start."""
    n_whole = 0
    for round_ in range(4):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.03 + 0.017 * round_)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        archive = Archive(tmp_path, "model")
        for found in archive.scan():
            assert np.array_equal(files.read(found.path).tokens, found.tokens)
            n_whole += 1
        assert not archive.foreign
        assert not list(tmp_path.glob("*.tmp"))
        archive.close()
    assert n_whole > 0
