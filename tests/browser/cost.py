"""What it costs the engine to be watched: python -m tests.browser.cost [MODEL.gguf] (make bench-page).

One client is answered all the time, and another one notes when the engine was looked at, once a second. Whatever a
look costs, it costs within a moment: the engine says what it is doing, the server tells whoever watches, and a browser
on the same machine draws. So the tokens of that moment are compared with those of the rest of the same second. A
machine whose speed changes by a fifth from one second to the next is thereby compared with itself, over and over.

Nobody else watches at first (whatever is seen then is the looking itself, and chance), then ten clients of the stream
of numbers do, and then a browser: with the live view in ten tabs of one window, of which one is in front, and in ten
windows that are all shown. Printed is the share of all tokens that is lost around the looks, with a 95% interval, what
the browser computed in all, and when in a second it goes slower. What a browser computes at other times than the looks
is in its share of the cores, not in the tokens lost. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import httpx
import numpy as np
from numpy.typing import NDArray

from foretoken.cli.models import resolve
from tests.browser.conftest import chromium
from tests.browser.tabs import browser
from tests.server.running import running, wait_until

BODY = {
    "messages": [{"role": "user", "content": "Write a long story about a river."}],
    "temperature": 0, "max_tokens": 3000, "ignore_eos": True, "cache_prompt": False, "speculative": {"type": "none"},
    "stream": True,
}  # fmt: skip
SETTLED = 20.0
"""Seconds until a browser that was just started is done with itself."""
BEFORE, AFTER = 0.02, 0.13
"""A look's moment, in seconds: the engine is asked before anybody is told; a drawing is done within a tenth."""
N_PHASES = 20

Times = NDArray[np.float64]
Computing = Callable[[], dict[str, float]]


class Talk(threading.Thread):
    """A client that is answered without end; notes when every token came."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.times: list[float] = []
        self.breaks: list[float] = []
        """When one answer ended and the next began."""
        self._over = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=600) as client:
            while not self._over.is_set():
                self.breaks.append(time.monotonic())
                self._answer(client)

    def _answer(self, client: httpx.Client) -> None:
        with client.stream("POST", "/v1/chat/completions", json=BODY) as answer:
            answer.raise_for_status()
            for line in answer.iter_lines():
                if self._over.is_set():
                    return
                if line.startswith("data: {") and json.loads(line[6:])["choices"]:
                    self.times.append(time.monotonic())

    def stop(self) -> None:
        self._over.set()
        self.join()


class Looks(threading.Thread):
    """A client of the stream of numbers; notes when each came."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.times: list[float] = []

    def run(self) -> None:
        with httpx.Client(timeout=None) as client, client.stream("GET", f"{self.url}/live/stream") as answer:
            for line in answer.iter_lines():
                if line.startswith("data:"):
                    self.times.append(time.monotonic())


@dataclass
class Found:
    """What was seen of one way to watch."""

    lost: list[float] = field(default_factory=list)
    """For every look, the share of its second's tokens that its moment fell short of."""
    by_phase: Times = field(default_factory=lambda: np.zeros(N_PHASES))
    """Tokens of every twentieth of a second after a look, as a share of what an even pace would give."""
    drawing: dict[str, float] = field(default_factory=dict)
    """Seconds that the browser computed per second, by kind of process."""


def watch(talk: Talk, looks: Looks, seconds: float, computing: Computing = dict) -> Found:
    """Look at what happens for some time."""
    start, computed = time.monotonic(), computing()
    time.sleep(seconds)
    end, computed_since = time.monotonic(), computing()
    drawing = {kind: (spent - computed.get(kind, 0.0)) / (end - start) for kind, spent in computed_since.items()}
    tokens, breaks = np.array(talk.times), np.array(talk.breaks)
    seen = [at for at in list(looks.times) if start + 1 < at < end - 2]
    # A second in which an answer ended has other reasons to be slow.
    whole = [
        (at, after)
        for at, after in itertools.pairwise(seen)
        if 0.9 < after - at < 1.1 and not ((breaks > at - 1) & (breaks < after + 1)).any()
    ]
    return Found([shortfall(tokens, *look) for look in whole], profile(tokens, whole), drawing)


def said(tokens: Times, at: float | Times) -> Times:
    """How many tokens had come by then, a half-computed one counted by half."""
    return np.asarray(np.interp(at, tokens, np.arange(len(tokens))))


def shortfall(tokens: Times, look: float, following: float) -> float:
    """What a look's moment fell short of the pace of the rest of its second, as a share of that second's tokens."""
    begun, over, rest = said(tokens, np.array([look - BEFORE, look + AFTER, following - BEFORE]))
    pace = (rest - over) / (following - BEFORE - look - AFTER)
    return float((pace * (BEFORE + AFTER) - (over - begun)) / (pace * (following - look)))


def profile(tokens: Times, looks: Sequence[tuple[float, float]]) -> Times:
    """The pace in every twentieth of a second, one being an even pace."""
    edges = np.linspace(0.0, 1.0, N_PHASES + 1)
    counts = np.array([np.diff(said(tokens, look + edges * (following - look))) for look, following in looks])
    shares: Times = (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0) * N_PHASES
    return shares


def mean(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean with its 95% interval, a bootstrap over looks."""
    found = np.array(values)
    draws = np.random.default_rng(0).integers(0, len(found), (2000, len(found)))
    low, high = np.quantile(found[draws].mean(axis=1), [0.025, 0.975])
    return float(found.mean()), float(low), float(high)


def read_stream(url: str) -> None:
    with httpx.Client(timeout=None) as client, client.stream("GET", f"{url}/live/stream") as answer:
        for _ in answer.iter_bytes():
            pass


@contextlib.contextmanager
def streams(url: str, n: int) -> Iterator[None]:
    """So many clients of /live/stream, each a process."""
    readers = [multiprocessing.get_context("spawn").Process(target=read_stream, args=(url,)) for _ in range(n)]
    for reader in readers:
        reader.start()
    time.sleep(SETTLED)
    yield
    for reader in readers:
        reader.kill()
        reader.join()


@contextlib.contextmanager
def browse(address: str, windows: bool) -> Iterator[Computing]:
    """Ten pages; live views that can be seen are being drawn before anything is measured."""
    path = chromium()
    assert path is not None, "no Chromium here"
    with browser(path) as started:
        tabs = [started.open(address, window=windows) for _ in range(10)]
        expected = [windows] * 9 + [True]
        wait_until(lambda: [tab.shown for tab in tabs] == expected, "the browser to show what it should")
        drawn = "document.querySelectorAll('.uplot canvas').length === 4"
        wait_until(lambda: all(tab.evaluate(drawn) for tab in tabs if tab.shown), "the charts")
        time.sleep(SETTLED)
        yield started.cpu_seconds


def measure(url: str, seconds: float, ways: Sequence[str]) -> Iterator[tuple[str, Found]]:
    talk, looks = Talk(url), Looks(url)
    talk.start()
    looks.start()
    for way in ways:
        if way == "nobody":
            yield "nobody else", watch(talk, looks, seconds)
        elif way == "streams":
            with streams(url, 10):
                yield "10 streams", watch(talk, looks, seconds)
        else:
            with browse(f"{url}/#live", windows=way == "windows") as computing:
                name = "10 windows, all shown" if way == "windows" else "10 tabs of one window"
                yield name, watch(talk, looks, seconds, computing)
    talk.stop()


def drawn(drawing: dict[str, float]) -> str:
    """What a browser computed: its share of the machine, and milliseconds by kind of process."""
    if not drawing:
        return "|"
    share = sum(drawing.values()) / (os.cpu_count() or 1)
    by_kind = {kind: 1000 * seconds for kind, seconds in sorted(drawing.items())}
    return f"{share:.2%} | " + ", ".join(f"{kind} {ms:.1f}" for kind, ms in by_kind.items() if ms >= 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--seconds", type=float, default=300.0, help="of each way to be watched")
    # With one thread on two cores the browser draws on the other core.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ways", default="nobody,streams,tabs,windows")
    given = parser.parse_args()
    model = resolve(given.model)
    print(f"{model.name}, {given.threads} threads, {given.seconds:.0f} s each\n")
    print("| watched by | looks | tokens lost (95%) | browser, of all cores | ms per second |")
    print("|---|---|---|---|---|", flush=True)
    phases = {}
    with running(model, n_ctx=8192, n_threads=given.threads) as server:
        for name, found in measure(server.url, given.seconds, given.ways.split(",")):
            lost, low, high = mean(found.lost)
            share = f"{lost:+.2%} [{low:+.2%}, {high:+.2%}]"
            print(f"| {name} | {len(found.lost)} | {share} | {drawn(found.drawing)} |", flush=True)
            phases[name] = found.by_phase
    print("\nThe pace in every twentieth of the second after a look, one being an even pace:")
    for name, shares in phases.items():
        print(f"{name}: " + " ".join(f"{share:.2f}" for share in shares))


if __name__ == "__main__":
    main()
