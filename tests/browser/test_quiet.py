"""A page costs nothing that nobody sees: hidden tabs, charts out of view, texts that stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import Page, expect

from foretoken.server import live
from tests.browser.conftest import TEXT, chromium
from tests.browser.tabs import Tab, Tabs, browser
from tests.browser.test_views import pictures
from tests.server.running import TIMEOUT, RunningServer, wait_until

OpenPage = Callable[..., Page]
VERIFIED = "[...document.querySelectorAll('#view-live .numbers-table tbody tr')].map((row) => row.cells[2].textContent)"
SCROLL = "document.querySelector('#view-live .numbers-table').scrollIntoView()"
DRAWN = "document.querySelectorAll('.uplot canvas').length === 4"


@pytest.fixture
def watchers(monkeypatch: pytest.MonkeyPatch) -> set[live.Watcher]:
    """Those who watch the server right now."""
    present: set[live.Watcher] = set()
    enter, leave = live.Watch.enter, live.Watch.leave

    def entering(watch: live.Watch) -> live.Watcher:
        watcher = enter(watch)
        present.add(watcher)
        return watcher

    def leaving(watch: live.Watch, watcher: live.Watcher) -> None:
        present.discard(watcher)
        leave(watch, watcher)

    monkeypatch.setattr(live.Watch, "enter", entering)
    monkeypatch.setattr(live.Watch, "leave", leaving)
    return present


@pytest.fixture
def tabs() -> Iterator[Tabs]:
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here")
    with browser(path) as started:
        yield started


def work(server: RunningServer) -> None:
    body = {"prompt": TEXT, "n_predict": 64, "temperature": 0, "ignore_eos": True}
    httpx.post(f"{server.url}/completion", json=body, timeout=TIMEOUT).raise_for_status()


def verified(server: RunningServer) -> list[str]:
    drafters = httpx.get(f"{server.url}/live").json()["drafters"]
    return [f"{one['verified']:,}" for one in drafters.values()]


def watching(tab: Tab) -> None:
    wait_until(lambda: tab.shown, "the tab to be in front")
    wait_until(lambda: tab.evaluate(DRAWN), "the charts")


def bring_to_front(tab: Tab) -> None:
    """Asked for again until it is there: a browser that is still loading other tabs may put one of those in front."""

    def is_there() -> bool:
        tab.to_front()
        return tab.shown

    wait_until(is_there, "the tab to be in front")


def test_a_hidden_tab_has_no_stream_and_catches_up(
    tabs: Tabs, server: RunningServer, watchers: set[live.Watcher]
) -> None:
    tab = tabs.open(f"{server.url}/#live")
    watching(tab)
    assert len(watchers) == 1
    tab.evaluate(SCROLL)
    wait_until(lambda: tab.evaluate(VERIFIED) == verified(server), "the numbers")
    before = tab.evaluate(VERIFIED)
    other = tabs.open("about:blank")
    wait_until(lambda: not tab.shown and not watchers, "the stream's end")
    work(server)
    assert verified(server) != before
    assert tab.evaluate(VERIFIED) == before
    assert not watchers
    other.close()
    tab.to_front()
    wait_until(lambda: tab.evaluate(VERIFIED) == verified(server), "the latest numbers")
    assert len(watchers) == 1


def test_of_ten_tabs_the_one_in_front_watches(tabs: Tabs, server: RunningServer, watchers: set[live.Watcher]) -> None:
    opened = [tabs.open(f"{server.url}/#live") for _ in range(10)]
    watching(opened[-1])
    wait_until(lambda: [tab.shown for tab in opened] == [False] * 9 + [True], "one tab in front")
    wait_until(lambda: len(watchers) == 1, "one stream")
    bring_to_front(opened[3])
    watching(opened[3])
    wait_until(lambda: not opened[-1].shown and len(watchers) == 1, "one stream")


def test_a_hidden_page_does_not_ask_for_the_health(tabs: Tabs, server: RunningServer) -> None:
    tab = tabs.open(server.url)
    asked = "performance.getEntriesByType('resource').filter((one) => one.name.endsWith('/health')).length"
    wait_until(lambda: tab.evaluate(asked) >= 2, "the second look")
    tabs.open("about:blank")
    wait_until(lambda: not tab.shown, "the page to be hidden")
    n = tab.evaluate(asked)
    # One may have been under way; a second would come four seconds later.
    assert tab.evaluate(f"new Promise((done) => setTimeout(() => done({asked}), 9000))") <= n + 1
    tab.to_front()
    wait_until(lambda: tab.evaluate(asked) > n, "the next look")


def test_what_stays_the_same_is_not_written_again(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page("/#live")
    expect(page.locator(".uplot canvas")).to_have_count(4)
    wait_until(server.idle, "the engine to be idle")
    page.wait_for_timeout(1500)
    changed = page.evaluate(
        """() => new Promise((done) => {
          const found = new Set();
          let looks = 0;
          const uptime = document.querySelectorAll(".tile")[5];
          new MutationObserver((all) => {
            for (const { target } of all) {
              const element = target.nodeType === 1 ? target : target.parentElement;
              if (uptime.contains(element)) looks += 1;
              found.add(element.closest(".tile, .slots, .numbers-table, .facts, .status, .chart")?.className);
            }
            if (looks >= 3) done([...found]);
          }).observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
        })"""
    )
    assert "tile card" in changed
    assert not {"slots", "numbers-table", "facts", "status"} & set(changed)


def test_what_is_out_of_view_waits(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page("/#live", viewport={"width": 1200, "height": 300})
    expect(page.locator(".uplot canvas")).to_have_count(4)
    charts, numbers = pictures(page), page.evaluate(VERIFIED)
    work(server)
    latest = verified(server)
    assert latest != numbers
    totals = httpx.get(f"{server.url}/live").json()["totals"]
    expect(page.locator(".tile .hint").nth(3)).to_have_text(f"{totals['accepted']:,} of {totals['drafted']:,} drafted")
    assert pictures(page)[2:] == charts[2:]
    assert page.evaluate(VERIFIED) == numbers
    page.locator(".chart").nth(3).scroll_into_view_if_needed()
    page.wait_for_function("(old) => document.querySelectorAll('.uplot canvas')[3].toDataURL() !== old", arg=charts[3])
    page.evaluate(SCROLL)
    page.wait_for_function(f"(latest) => JSON.stringify({VERIFIED}) === JSON.stringify(latest)", arg=latest)


TOLD = """(() => {
  window.told = 0;
  const post = BroadcastChannel.prototype.postMessage;
  BroadcastChannel.prototype.postMessage = function (news) { window.told += "said" in news; post.call(this, news); };
})()"""


def test_who_has_the_stream_tells_others_only_while_there_are_any(
    tabs: Tabs, server: RunningServer, watchers: set[live.Watcher]
) -> None:
    first = tabs.open(f"{server.url}/#live", window=True)
    watching(first)
    first.evaluate(TOLD)
    second = tabs.open(f"{server.url}/#live", window=True)
    watching(second)
    assert len(watchers) == 1
    wait_until(lambda: first.evaluate("window.told") > 1, "the second window to be told")
    third = tabs.open(f"{server.url}/#live", window=True)
    watching(third)
    third.close()
    said = first.evaluate("window.told")
    wait_until(lambda: first.evaluate("window.told") > said + 1, "the second to be told still")
    second.close()
    silent = "new Promise((done) => { const n = window.told; setTimeout(() => done(window.told === n), 2500); })"
    wait_until(lambda: first.evaluate(silent), "silence")
    fourth = tabs.open(f"{server.url}/#live", window=True)
    watching(fourth)
    first.close()
    fourth.evaluate(SCROLL)
    work(server)
    wait_until(lambda: fourth.evaluate(VERIFIED) == verified(server), "the other to take over the stream")
    assert len(watchers) == 1
