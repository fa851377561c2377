"""Race, live view and request pages, keys, restarts, narrow and dark screens, and who cannot see them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from foretoken.server.settings import ServerSettings
from tests.browser.conftest import TEXT
from tests.browser.test_chat import limit, say
from tests.server.running import TIMEOUT, RunningServer, running

OpenPage = Callable[..., Page]
VIEWS = ("/", "/#race", "/#live", "/#requests")


def test_the_race_ends_in_the_truth(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page("/#race")
    page.locator("#race-prompt").fill(TEXT)
    page.locator("#race-most").fill("64")
    page.get_by_role("button", name="Race", exact=True).click()
    verdict = page.locator(".verdict")
    expect(verdict).to_contain_text("Same text")
    lanes = page.locator(".lane")
    for at in range(2):
        expect(lanes.nth(at).locator(".clock")).to_contain_text("64 tokens ·")
    texts = [lanes.nth(at).locator(".exact").evaluate("(e) => e.textContent") for at in range(2)]
    assert texts[0] == texts[1] != ""
    assert lanes.nth(0).locator(".guessed").count() > 0
    assert lanes.nth(1).locator(".guessed").count() == 0
    listed = httpx.get(f"{server.url}/requests").json()["data"][:2]
    rates = [one["tokens_per_second"] for one in reversed(listed)]
    said = page.locator(".result .hint").first.inner_text()
    assert said.startswith(f"{rates[0]:,.0f} against {rates[1]:,.0f} tokens/s")
    ratio = rates[0] / rates[1]
    words = "faster" if ratio >= 1.02 else "as fast" if ratio > 0.98 else "slower"
    assert words in verdict.inner_text()


def test_the_race_tells_where_texts_differ(open_page: OpenPage) -> None:
    """Should it ever happen, it is said: the page's own verdict, on two answers that differ."""
    page = open_page()
    told = page.evaluate(
        """async () => {
          const { compare } = await import("/page/race.js");
          const { Answer } = await import("/page/answer.js");
          const make = (texts, rate) => {
            const answer = new Answer();
            answer.takeStep(null,
              texts.map((text, id) => ({ id: text.charCodeAt(0), text, origin: "model" })));
            answer.timings = { predicted_per_second: rate };
            return answer;
          };
          return [
            compare(make(["a", "b"], 210), make(["a", "b"], 100)), compare(make(["a", "b"], 50), make(["a", "c"], 100)),
            compare(make(["a"], 100), make(["a", "b"], 100)), compare(make(["a"], 80), make(["a"], 100)),
          ].map((one) => [one.words, one.detail]);
        }"""
    )
    words = [one[0] for one in told]
    assert words == [
        "Same text, 2.1\u00d7 faster",
        "Different text from token 2 on, 2.00\u00d7 slower",
        "Different text from token 2 on, as fast",
        "Same text, 1.25\u00d7 slower",
    ]
    assert 'The model alone said "c", with speculation "b"' in told[1][1]


def test_live_charts_move(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page("/#live")
    expect(page.locator(".uplot canvas")).to_have_count(4)
    # The page looks once a second: one answer alone may begin and end between two looks.
    asked = {"prompt": [TEXT] * 5, "n_predict": 3000, "ignore_eos": True}
    asking = threading.Thread(target=lambda: httpx.post(f"{server.url}/completion", json=asked, timeout=4 * TIMEOUT))
    before = pictures(page)
    asking.start()
    expect(page.locator(".tile-value").nth(1)).not_to_have_text("0 of 2")
    expect(page.locator(".slot.busy").first).to_be_visible()
    page.wait_for_function("() => Number(document.querySelector('.tile-value').textContent.replace(/,/g, '')) > 10")
    page.wait_for_function(
        "(old) => [0, 1].every((at) => document.querySelectorAll('.uplot canvas')[at].toDataURL() !== old[at])",
        arg=before,
    )
    asking.join()
    live = httpx.get(f"{server.url}/live").json()
    expect(page.locator(".tile-value").nth(1)).to_have_text("0 of 2")
    rows = page.locator("#view-live .numbers-table tbody tr")
    rows.last.scroll_into_view_if_needed()
    assert rows.count() == len(live["drafters"])
    name, used = max(live["drafters"].items(), key=lambda item: item[1]["verified"])
    expect(rows.filter(has_text=name).first.locator("td").nth(1)).to_have_text(f"{used['verified']:,}")


def test_ten_tabs_share_one_stream(open_page: OpenPage, server: RunningServer) -> None:
    """A browser opens six connections to a server: tabs that each kept one would lock each other out."""
    first = open_page("/#live")
    expect(first.locator(".uplot canvas")).to_have_count(4)
    streams: list[str] = []
    first.context.on("request", lambda asked: streams.append(asked.url) if "/live/stream" in asked.url else None)
    tabs = [first, *(first.context.new_page() for _ in range(9))]
    for tab in tabs[1:]:
        tab.goto(f"{server.url}/#live")
    for tab in tabs:
        expect(tab.locator(".uplot canvas")).to_have_count(4)
    assert streams == []
    # When the one that has the stream goes, another takes over.
    first.close()
    tile = tabs[5].locator(".tile").last
    before = tile.inner_text()
    expect(tile).not_to_have_text(before)
    assert len(streams) == 1


def pictures(page: Page) -> list[str]:
    found: list[str] = page.locator(".uplot canvas").evaluate_all("(all) => all.map((canvas) => canvas.toDataURL())")
    return found


def test_a_request_has_a_page(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 48)
    answer = say(page)
    name = (answer.locator(".to-request").get_attribute("href") or "").rsplit("/", 1)[-1]
    answer.locator(".to-request").click()
    view = page.locator("#view-request")
    expect(view.locator("h2")).to_contain_text(name)
    data = httpx.get(f"{server.url}/requests/{name}").json()["choices"][0]
    assert view.locator(".timeline svg > g").count() == len(data["steps"])
    guessed = [token["origin"] != "model" for token in data["tokens"]]
    assert view.locator(".exact .token").count() == len(guessed)
    assert view.locator(".exact .guessed").count() == sum(guessed)
    # The address alone is enough, and going back leads to the conversation.
    page.go_back()
    expect(page.locator(".message.assistant")).to_be_visible()
    fresh = open_page(f"/requests/{name}")
    expect(fresh.locator("#view-request h2")).to_contain_text(name)
    fresh.goto(f"{server.url}/requests/none-such")
    expect(fresh.locator("#view-request .wrong")).to_contain_text("no request with this id")
    fresh.get_by_role("link", name="Requests").click()
    expect(fresh.locator("#view-requests tbody tr").first).to_be_visible()


def test_a_wrong_key_is_asked_for_again(open_page: OpenPage, model_path: Path) -> None:
    with running(model_path, ServerSettings(api_keys=("right",), grace=5)) as locked:
        page = open_page(url=locked.url)
        dialog = page.get_by_role("dialog")
        expect(dialog).to_be_visible()
        page.get_by_role("textbox", name="API key").fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("not one of this server's")
        page.get_by_role("textbox", name="API key").fill("right")
        page.keyboard.press("Enter")
        expect(dialog).to_be_hidden()
        limit(page, 8)
        say(page)
        page.get_by_role("link", name="Live").click()
        expect(page.locator(".uplot canvas")).to_have_count(4)
        page.reload()
        page.wait_for_selector(".status[data-state=ready]")
        expect(page.locator(".uplot canvas")).to_have_count(4)
        expect(dialog).to_be_hidden()


def test_a_page_outlives_its_engine_and_its_server(open_page: OpenPage, model_path: Path) -> None:
    with running(model_path) as mortal:
        url = mortal.url
        page = open_page("/#live", url=url)
        expect(page.locator(".uplot canvas")).to_have_count(4)
        os.kill(mortal.worker.pid, signal.SIGKILL)
        expect(page.locator(".tile-value").last).to_have_text("1")
        page.wait_for_selector(".status[data-state=ready]")
    page.wait_for_selector(".status[data-state=away]")
    expect(page.locator("#view-live > .hint")).to_contain_text("trying again")
    with running(model_path, port=int(url.rsplit(":", 1)[1])):
        page.wait_for_selector(".status[data-state=ready]")
        expect(page.locator("#view-live > .hint").first).to_have_text("")
        expect(page.locator(".tile-value").last).to_have_text("0")
        page.get_by_role("link", name="Chat", exact=True).click()
        limit(page, 8)
        say(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_it(open_page: OpenPage, scheme: str) -> None:
    page = open_page(color_scheme=scheme)
    limit(page, 40)
    say(page)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(20, 23, 27)") == (scheme == "dark")
    for view in VIEWS:
        page.evaluate(
            "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", view
        )
        page.wait_for_timeout(1300 if "live" in view else 300)
        check_accessible(page, f"{view} {scheme}")
    page.locator("#view-requests tbody a").first.click()
    expect(page.locator(".timeline")).to_be_visible()
    check_accessible(page, f"request {scheme}")


def check_accessible(page: Page, where: str) -> None:
    found = Axe().run(page)
    serious = [
        f"{where}: {rule['id']}: {node['html'][:200]}"
        for rule in found.response["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
    assert not serious


def test_a_phone_shows_all_of_it(open_page: OpenPage) -> None:
    page = open_page(viewport={"width": 360, "height": 740})
    page.locator(".side summary").click()
    limit(page, 24)
    page.locator(".side summary").click()
    say(page, "word " * 40 + "x" * 400)
    for view in VIEWS:
        page.evaluate(
            "(to) => { history.pushState(null, '', to); dispatchEvent(new PopStateEvent('popstate')); }", view
        )
        page.wait_for_timeout(1300 if "live" in view else 200)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, view
    page.locator("#view-requests tbody a").first.click()
    expect(page.locator(".timeline")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    for link in page.locator("nav a").all():
        assert link.is_visible()
