"""What it costs the engine to be watched: python -m tests.browser.cost [MODEL.gguf] (make bench-page).

One client is answered all the time. Rounds take turns: nobody watches, one stream, ten streams, and a browser on the
same machine: with ten empty tabs, with the live view in ten tabs of one window, of which one is in front, and in ten
windows that are all shown. What is compared is tokens per second of the same greedy answer within one round; the median
over the rounds and its spread are printed, and what the browser computed meanwhile, as a share of all cores and by kind
of process. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

from foretoken.cli.models import resolve
from tests.browser.conftest import chromium
from tests.browser.tabs import browser
from tests.server.running import running, wait_until

BODY = {
    "messages": [{"role": "user", "content": "Write a long story about a river."}],
    "temperature": 0, "max_tokens": 1024, "ignore_eos": True, "cache_prompt": False, "speculative": {"type": "none"},
}  # fmt: skip
EMPTY = "about:blank"
SETTLED = 20.0
"""Seconds until a browser that was just started is done with itself."""


@dataclass
class Found:
    """What was seen of one way to watch, round by round."""

    paces: list[float] = field(default_factory=list)
    """Tokens per second, by the engine's own clock."""
    drawing: list[dict[str, float]] = field(default_factory=list)
    """Seconds that the browser computed per second, by kind of process."""


def ask(client: httpx.Client) -> float:
    answer = client.post("/v1/chat/completions", json=BODY)
    answer.raise_for_status()
    return float(answer.json()["timings"]["predicted_per_second"])


@contextlib.contextmanager
def streams(url: str, n: int) -> Iterator[None]:
    """So many clients of /live/stream."""
    over = threading.Event()

    def read() -> None:
        with httpx.Client(timeout=None) as client, client.stream("GET", f"{url}/live/stream") as answer:
            for _ in answer.iter_bytes():
                if over.is_set():
                    return

    threads = [threading.Thread(target=read) for _ in range(n)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


def browse(address: str, client: httpx.Client, windows: bool, found: Found) -> None:
    """Ten pages; live views that can be seen are being drawn before anything is measured."""
    path = chromium()
    assert path is not None, "no Chromium here"
    with browser(path) as started:
        tabs = [started.open(address, window=windows) for _ in range(10)]
        expected = [windows] * 9 + [True]
        wait_until(lambda: [tab.shown for tab in tabs] == expected, "the browser to show what it should")
        if address != EMPTY:
            drawn = "document.querySelectorAll('.uplot canvas').length === 4"
            wait_until(lambda: all(tab.evaluate(drawn) for tab in tabs if tab.shown), "the charts")
        time.sleep(SETTLED)
        began, computed = time.monotonic(), started.cpu_seconds()
        found.paces.append(ask(client))
        seconds = time.monotonic() - began
        found.drawing.append(
            {kind: (now - computed.get(kind, 0)) / seconds for kind, now in started.cpu_seconds().items()}
        )


def measure(url: str, n_rounds: int) -> dict[str, Found]:
    names = ("nobody", "1 stream", "10 streams", "10 empty tabs", "10 tabs of one window", "10 windows, all shown")
    found = {name: Found() for name in names}
    with httpx.Client(base_url=url, timeout=600) as client:
        ask(client)
        for _ in range(n_rounds):
            for name, n in zip(names[:3], (0, 1, 10), strict=True):
                with streams(url, n):
                    time.sleep(1)
                    found[name].paces.append(ask(client))
            browse(EMPTY, client, windows=False, found=found[names[3]])
            browse(f"{url}/#live", client, windows=False, found=found[names[4]])
            browse(f"{url}/#live", client, windows=True, found=found[names[5]])
    return found


def drawn(found: list[dict[str, float]]) -> str:
    """The medians of what a browser computed: its share of the machine, and milliseconds by kind of process."""
    if not found:
        return "|"
    share = statistics.median(sum(one.values()) for one in found) / (os.cpu_count() or 1)
    kinds = sorted({kind for one in found for kind in one})
    by_kind = {kind: 1000 * statistics.median(one.get(kind, 0) for one in found) for kind in kinds}
    return f"{share:.2%} | " + ", ".join(f"{kind} {ms:.1f}" for kind, ms in by_kind.items() if ms >= 0.1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", nargs="?")
    parser.add_argument("--rounds", type=int, default=9)
    # With one thread on two cores the browser draws on the other core.
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    model = resolve(given.model)
    began = time.monotonic()
    with running(model, n_ctx=2048, n_threads=given.threads) as server:
        found = measure(server.url, given.rounds)
    print(f"{model.name}, {given.threads} threads, {given.rounds} rounds, {time.monotonic() - began:.0f} s\n")
    print("| watched by | tokens/s | against nobody | spread of the rounds | browser, of all cores | ms per second |")
    print("|---|---|---|---|---|---|")
    for name, one in found.items():
        ratios = [value / plain for value, plain in zip(one.paces, found["nobody"].paces, strict=True)]
        spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
        pace, ratio = statistics.median(one.paces), statistics.median(ratios)
        print(f"| {name} | {pace:.1f} | {ratio:.4f} | {spread} | {drawn(one.drawing)} |")


if __name__ == "__main__":
    main()
