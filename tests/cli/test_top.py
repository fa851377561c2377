"""`foretoken top` against a running server, and answers coloured in the terminal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.cli.colouring import Painter, visible
from foretoken.engine.text import TextStream
from foretoken.server.settings import ServerSettings
from foretoken.types import Chunk, TokenInfo
from tests.cli.test_run import foretoken, run
from tests.server.running import TIMEOUT, RunningServer, running

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def server(tiny_path: Callable[..., Path]) -> Iterator[RunningServer]:
    with running(tiny_path("qwen35"), ServerSettings(api_keys=("secret",), grace=5)) as started:
        body = {"prompt": "one two one two one two", "n_predict": 40, "ignore_eos": True}
        headers = {"authorization": "Bearer secret"}
        httpx.post(f"{started.url}/completion", json=body, headers=headers, timeout=TIMEOUT).raise_for_status()
        yield started


def test_one_look_for_scripts_and_for_people(server: RunningServer) -> None:
    done = foretoken("top", server.url, "--api-key", "secret", "--once", "--json")
    assert done.returncode == 0, done.stderr
    look = json.loads(done.stdout)
    assert look["totals"]["emitted"] == 40
    assert look["rates"]["tokens"] == 0
    done = foretoken("top", server.url.removeprefix("http://"), "--api-key", "secret", "--once")
    assert done.returncode == 0, done.stderr
    for words in ("0 of 2 slots busy", "tokens/s", *look["drafters"]):
        assert words in done.stdout


def test_what_cannot_be_watched_is_one_line(server: RunningServer) -> None:
    for arguments, words in (
        ((server.url, "--once"), "--api-key"),
        (("127.0.0.1:9", "--once"), "cannot watch"),
    ):
        done = foretoken("top", *arguments)
        assert done.returncode == 1
        assert words in done.stderr
        assert "Traceback" not in done.stderr


def test_coloured_is_the_same_text(tiny_path: Callable[..., Path]) -> None:
    arguments = ("-p", "one two one two one two one two", "-n", 64, "--ignore-eos", "--plan", "fixed", "--temp", 0)
    plain = run(tiny_path("qwen35"), *arguments)
    coloured = run(tiny_path("qwen35"), *arguments, "--color")
    assert coloured.returncode == 0, coloured.stderr
    assert ANSI.sub("", coloured.stdout) == visible(plain.stdout)
    assert re.search(r"tokens: \d+ thought by the model", coloured.stderr)


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.sampled_from(["model", "copy", "suffix"])), max_size=30),
    st.lists(st.text("ab\x1bé", min_size=1, max_size=3), max_size=2),
    st.integers(1, 4),
)
def test_painting_loses_and_adds_nothing(pieces: list[tuple[bytes, str]], stops: list[str], n: int) -> None:
    stream, painter = TextStream(tuple(stops)), Painter(frozenset({0}))
    said = painted = ""
    for at in range(0, len(pieces), n):
        tokens = tuple(TokenInfo(1, piece, origin) for piece, origin in pieces[at : at + n])
        chunk = Chunk(0, "".join(stream.push(token.piece) for token in tokens), tokens)
        said += chunk.text
        painted += painter.paint(chunk)
    last = Chunk(0, stream.finish(), ())
    assert ANSI.sub("", painted + painter.paint(last)) == visible(said + last.text)
