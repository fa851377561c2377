"""One browser for all tests; every page is watched for errors, foreign requests and broken rules."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from foretoken.config import SpeculationConfig
from tests.server.running import TIMEOUT, RunningServer, running

TEXT = "one two three four one two three four one two three four one two"

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-quic",
]  # fmt: skip
EXPECTED = ("Failed to load resource",)
"""What the console says by itself about an answer that is an error."""


def chromium() -> str | None:
    given = os.environ.get("FORETOKEN_CHROMIUM")
    return given or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Only as long as these tests run: it keeps an event loop in the main thread."""
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here: `make test` installs it, or set FORETOKEN_CHROMIUM")
    started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
    yield started
    started.close()


@pytest.fixture(scope="package")
def model_path(tiny_path: Callable[..., Path]) -> Path:
    return tiny_path("qwen35")


@pytest.fixture(scope="package")
def server(model_path: Path) -> Iterator[RunningServer]:
    """Verifies whatever is offered (what pays on a busy machine is left to chance), and has heard the answer before."""
    with running(model_path, n_ctx=4096, speculation=SpeculationConfig(plan="fixed")) as started:
        heard = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 128, "temperature": 0}
        httpx.post(f"{started.url}/v1/chat/completions", json=heard, timeout=TIMEOUT).raise_for_status()
        yield started


class Watched:
    """A page, with everything that went wrong on it."""

    def __init__(self, page: Page, host: str) -> None:
        self.page = page
        self.wrong: list[str] = []
        page.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        page.on("console", self._console)
        page.on("request", lambda request: self._request(request.url, host))
        page.add_init_script(
            "addEventListener('securitypolicyviolation', (e) =>"
            " console.error('CSP: ' + e.violatedDirective + ' ' + e.blockedURI));"
        )

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(EXPECTED):
            self.wrong.append(f"console: {message.text}")

    def _request(self, url: str, host: str) -> None:
        if not url.startswith((host, "data:", "blob:")):
            self.wrong.append(f"request to {url}")


@pytest.fixture
def open_page(browser: Browser, server: RunningServer) -> Iterator[Callable[..., Page]]:
    """Opens pages; at the end nothing may have gone wrong on any of them."""
    watched: list[Watched] = []

    def open_one(path: str = "/", url: str | None = None, ready: bool = True, **settings: Any) -> Page:
        host = url or server.url
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}, **settings})
        page = context.new_page()
        page.set_default_timeout(20_000)
        watched.append(Watched(page, host))
        page.goto(host + path)
        if ready:
            page.wait_for_selector(".status[data-state=ready]")
        return page

    yield open_one
    wrong = [line for one in watched for line in one.wrong]
    for one in watched:
        try:
            one.page.context.close()
        except PlaywrightError as error:  # a test that failed may have closed it
            wrong.append(str(error))
    assert not wrong
