"""Pictures of the real page for the documentation: python -m tests.browser.screenshots (make screenshots).

The embedded model answers; run it on a quiet machine, the pictures show how fast it was.
"""

from __future__ import annotations

import re
import threading
from pathlib import Path

import httpx
from playwright.sync_api import Browser, Page, sync_playwright

from foretoken.cli.models import resolve
from foretoken.config import available_cores
from tests.browser.conftest import ARGUMENTS, chromium
from tests.server.running import running

IMAGES = Path(__file__).parents[2] / "docs" / "images"
REPEAT = (Path(__file__).parents[2] / "examples" / "repeat.txt").read_text()
LOAD = {"messages": [{"role": "user", "content": REPEAT}], "temperature": 0, "max_tokens": 400, "ignore_eos": True}


def open_page(browser: Browser, url: str, scheme: str = "light", width: int = 1180, height: int = 760) -> Page:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    page.wait_for_selector(".status[data-state=ready]")
    return page


def save(page: Page, name: str) -> None:
    page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")


def chat(page: Page) -> None:
    page.locator("#set-temperature").fill("0")
    page.locator("#say").fill(REPEAT)
    page.keyboard.press("Enter")
    page.wait_for_selector(".to-request")
    page.locator(".said .guessed").filter(has_text=re.compile(r"\w{4}")).nth(1).hover()


def race(page: Page) -> None:
    page.get_by_role("button", name="Race", exact=True).click()
    page.wait_for_selector(".verdict", timeout=120_000)
    page.locator("#race-speed").select_option("1")
    page.locator("#race-prompt").evaluate("(field) => field.setAttribute('rows', '3')")
    page.wait_for_timeout(6000)


def live(page: Page, url: str) -> None:
    page.goto(f"{url}/#live")

    def work(number: int) -> None:
        for turn in range(6):
            messages = [{"role": "user", "content": f"{REPEAT} # {number} {turn}"}]
            httpx.post(f"{url}/v1/chat/completions", json={**LOAD, "messages": messages}, timeout=120)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
        page.wait_for_timeout(2500)
    page.wait_for_timeout(5000)
    save(page, "live")
    for thread in threads:
        thread.join()


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (
        running(resolve(None), n_ctx=4096, n_parallel=3, n_threads=available_cores()) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for scheme in ("light", "dark"):
            page = open_page(browser, server.url, scheme)
            chat(page)
            save(page, f"chat-{scheme}")
        page.mouse.move(0, 0)
        page = open_page(browser, server.url)
        chat(page)
        page.locator(".to-request").click()
        page.wait_for_selector(".timeline")
        page.mouse.move(0, 0)
        page.wait_for_timeout(300)
        save(page, "request")
        page = open_page(browser, f"{server.url}/#race")
        race(page)
        save(page, "race")
        live(open_page(browser, server.url, height=1100), server.url)
        browser.close()
    for path in sorted(IMAGES.glob("*.png")):
        print(f"{path.relative_to(IMAGES.parents[1])}: {path.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
