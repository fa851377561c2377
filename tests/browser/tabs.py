"""Chromium as people have it: tabs of one window, of which only the front one is shown, or several windows.

Playwright makes every page believe that it is in front; this speaks to the browser itself, through a pipe.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from tests.browser.conftest import ARGUMENTS


class Tab:
    """One page."""

    def __init__(self, browser: Tabs, target: str) -> None:
        self._browser = browser
        self._target = target
        self._session = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def evaluate(self, expression: str) -> Any:
        """What an expression, or the promise it is, comes to on the page."""
        found = self._browser.ask(
            "Runtime.evaluate", self._session, expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    @property
    def shown(self) -> bool:
        return self.evaluate("document.visibilityState") == "visible"

    def to_front(self) -> None:
        self._browser.ask("Target.activateTarget", targetId=self._target)

    def close(self) -> None:
        self._browser.ask("Target.closeTarget", targetId=self._target)


class Tabs:
    """A running browser."""

    def __init__(self, session: int, orders: int, reports: FileIO) -> None:
        self.session = session
        """The session that all its processes are in."""
        self._orders = orders
        self._reports = reports
        self._numbers = itertools.count(1)
        self._heard = b""

    def open(self, url: str, window: bool = False) -> Tab:
        """A new tab in front of the others, or in a window of its own."""
        size = {"newWindow": True, "width": 1200, "height": 800} if window else {}
        return Tab(self, self.ask("Target.createTarget", url=url, **size)["targetId"])

    def processes(self) -> list[int]:
        """All its processes."""
        return [int(path.name) for path, _ in self._running()]

    def cpu_seconds(self) -> dict[str, float]:
        """What its processes have computed so far, by what they are for."""
        found: defaultdict[str, float] = defaultdict(float)
        for path, fields in self._running():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                kind = re.search(r"--type=([\w-]+)", (path / "cmdline").read_text())
                ticks = int(fields[11]) + int(fields[12])
                found[kind[1] if kind else "browser"] += ticks / os.sysconf("SC_CLK_TCK")
        return found

    def _running(self) -> Iterator[tuple[Path, list[str]]]:
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                fields = (path / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.session:
                    yield path, fields

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(self._orders, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            pass
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._heard:
            data = self._reports.read(1 << 20)
            assert data, "the browser is gone"
            self._heard += data
        one, _, self._heard = self._heard.partition(b"\0")
        found: dict[str, Any] = json.loads(one)
        return found


@contextlib.contextmanager
def browser(path: str) -> Iterator[Tabs]:
    """Chromium without a screen, but with windows and tabs."""
    read_orders, orders = os.pipe()
    reports, write_reports = os.pipe()

    def as_three_and_four() -> None:
        # High numbers first: either end may be where the other has to go.
        high = os.dup(read_orders), os.dup(write_reports)
        os.dup2(high[0], 3)
        os.dup2(high[1], 4)

    with tempfile.TemporaryDirectory(prefix="foretoken-browser-", ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [path, "--headless=new", "--remote-debugging-pipe", "--window-size=1200,800", f"--user-data-dir={profile}",
             "--no-default-browser-check", *ARGUMENTS, "about:blank"],
            preexec_fn=as_three_and_four, pass_fds=(3, 4), start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(read_orders)
        os.close(write_reports)
        try:
            with open(reports, "rb", buffering=0) as heard:
                yield Tabs(process.pid, orders, heard)
        finally:
            os.close(orders)
            process.terminate()
            process.wait()
