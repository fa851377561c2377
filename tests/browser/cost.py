"""What it costs the engine to be watched: python -m tests.browser.cost [MODEL.gguf] (make bench-page).

One client is answered all the time. Whoever watches is held still and let go again in turns of a few seconds (SIGSTOP,
SIGCONT), so that a machine whose speed changes from minute to minute is compared with itself: ten clients of the stream
of numbers, and a browser on the same machine: with the live view in ten tabs of one window, of which one is in front,
and in ten windows that are all shown. Printed are the tokens per second with and without, the median of the pairs'
ratios with its 95% interval, and what the browser computed, as a share of all cores. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import exp, log

import httpx

from foretoken.bench.statistics import difference
from foretoken.cli.models import resolve
from tests.browser.conftest import chromium
from tests.browser.tabs import browser
from tests.server.running import running, wait_until

BODY = {
    "messages": [{"role": "user", "content": "Write a long story about a river."}],
    "temperature": 0, "max_tokens": 15000, "ignore_eos": True, "cache_prompt": False, "speculative": {"type": "none"},
    "stream": True,
}  # fmt: skip
SETTLED = 20.0
"""Seconds until a browser that was just started is done with itself."""
TURN = 4.0
"""Seconds of every turn: two drawings of the charts."""
AWAKE = 3.0
"""Seconds until who was let go has made up for what it missed."""

Processes = Callable[[], Sequence[int]]
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

    def pace(self, start: float, end: float) -> float | None:
        """Tokens per second from then to then; None if an answer ended in between."""
        if any(start - 1 < at < end for at in self.breaks):
            return None
        return sum(start < at <= end for at in self.times[-int(2000 * TURN) :]) / (end - start)

    def stop(self) -> None:
        self._over.set()
        self.join()


@dataclass
class Found:
    """What was seen of one way to watch."""

    pairs: list[tuple[float, float]] = field(default_factory=list)
    """Tokens per second unwatched and watched, turn by turn."""
    drawing: dict[str, float] = field(default_factory=dict)
    """Seconds that the browser computed per second that it was let go, by kind of process."""


def take_turns(talk: Talk, watchers: Processes, n_pairs: int, computing: Computing = dict) -> Found:
    """Hold whoever watches still and let go again, in an order nobody can foresee."""
    chance, found, n_free = random.Random(0), Found(), 0
    while len(found.pairs) < n_pairs:
        order = [signal.SIGSTOP, signal.SIGCONT]
        chance.shuffle(order)
        paces: dict[signal.Signals, float | None] = {}
        for turn in order:
            for process in watchers():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, turn)
            time.sleep(AWAKE)
            start, computed = time.monotonic(), computing()
            time.sleep(TURN)
            paces[turn] = talk.pace(start, time.monotonic())
            for kind, seconds in computing().items():
                found.drawing[kind] = found.drawing.get(kind, 0.0) + seconds - computed.get(kind, 0.0)
            n_free += turn is signal.SIGCONT
        still, free = paces[signal.SIGSTOP], paces[signal.SIGCONT]
        if still and free:
            found.pairs.append((still, free))
    for process in watchers():
        os.kill(process, signal.SIGCONT)
    found.drawing = {kind: seconds / (n_free * TURN) for kind, seconds in found.drawing.items()}
    return found


def read_stream(url: str) -> None:
    with httpx.Client(timeout=None) as client, client.stream("GET", f"{url}/live/stream") as answer:
        for _ in answer.iter_bytes():
            pass


@contextlib.contextmanager
def streams(url: str, n: int) -> Iterator[Processes]:
    """So many clients of /live/stream, each a process."""
    readers = [multiprocessing.get_context("spawn").Process(target=read_stream, args=(url,)) for _ in range(n)]
    for reader in readers:
        reader.start()
    time.sleep(SETTLED)
    yield lambda: [reader.pid for reader in readers if reader.pid]
    for reader in readers:
        reader.kill()
        reader.join()


def browse(address: str, talk: Talk, windows: bool, n_pairs: int) -> Found:
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
        return take_turns(talk, started.processes, n_pairs, started.cpu_seconds)


def measure(url: str, n_pairs: int, ways: Sequence[str]) -> dict[str, Found]:
    talk = Talk(url)
    talk.start()
    found: dict[str, Found] = {}
    for way in ways:
        if way == "streams":
            with streams(url, 10) as readers:
                found["10 streams"] = take_turns(talk, readers, n_pairs)
        elif way == "tabs":
            found["10 tabs of one window"] = browse(f"{url}/#live", talk, False, n_pairs)
        else:
            found["10 windows, all shown"] = browse(f"{url}/#live", talk, True, n_pairs)
    talk.stop()
    return found


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
    parser.add_argument("--pairs", type=int, default=40, help=f"turns of {TURN:.0f} s with and without")
    # With one thread on two cores the browser draws on the other core.
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ways", default="streams,tabs,windows")
    given = parser.parse_args()
    model = resolve(given.model)
    began = time.monotonic()
    with running(model, n_ctx=16384, n_threads=given.threads) as server:
        found = measure(server.url, given.pairs, given.ways.split(","))
    print(f"{model.name}, {given.threads} threads, {given.pairs} pairs, {time.monotonic() - began:.0f} s\n")
    print("| watched by | tokens/s unwatched | watched | ratio (95%) | browser, of all cores | ms per second |")
    print("|---|---|---|---|---|---|")
    for name, one in found.items():
        logarithm = difference([(log(still), log(free)) for still, free in one.pairs])
        still, free = (statistics.median(values) for values in zip(*one.pairs, strict=True))
        ratio, low, high = (exp(value) for value in (logarithm.value, logarithm.low, logarithm.high))
        print(f"| {name} | {still:.1f} | {free:.1f} | {ratio:.4f} [{low:.4f}, {high:.4f}] | {drawn(one.drawing)} |")


if __name__ == "__main__":
    main()
