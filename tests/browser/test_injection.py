"""Whatever a model says is text. Its words are made up here: a real model could not be told to say them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.server.running import RunningServer

OpenPage = Callable[..., Page]

HOSTILE = {
    "script": "<script>window.pwned = 1</script>",
    "handler": '<img src=x onerror="window.pwned = 1"> <svg/onload=window.pwned=1>',
    "link": "[click](javascript:window.pwned=1) [tab](\tjava\nscript:alert(1)) [data](data:text/html,<b>1</b>)",
    "autolink": "<javascript:window.pwned=1> <https://example.org/a>",
    "image": "![x](https://example.com/pixel.png) ![y](javascript:window.pwned=1)",
    "frame": '<iframe srcdoc="<script>parent.pwned=1</script>"></iframe><base href="https://example.com/">',
    "style": "<style>body{display:none}</style><link rel=stylesheet href=https://example.com/x.css>",
    "fence": "```html\n<script>window.pwned = 1</script>\n```\n`<b>bold</b>`",
    "quote": '" onmouseover="window.pwned=1" x="',
    "entities": "&lt;script&gt;window.pwned=1&lt;/script&gt; &#x3c;b&#x3e;",
    "ansi": "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x00 \x7f",
    "table": "| a | b |\n|---|---|\n| <script>window.pwned=1</script> | [x](javascript:window.pwned=1) |",
    "proto": "__proto__ constructor.constructor('window.pwned=1')()",
    "nested": "> " * 300 + "deep\n" + "- " * 200 + "deeper",
    "stars": "*" * 3000 + "_" * 3000 + "[" * 2000,
    "bidi": "\u202etxet desrever\u202c",
}


def events(text: str) -> bytes:
    """A stream that says a text in pieces of seven bytes, every other one guessed."""
    data = text.encode("utf-8", "surrogatepass")
    pieces = [data[at : at + 7] for at in range(0, len(data), 7)]
    lines: list[dict[str, Any]] = []
    for number, piece in enumerate(pieces):
        token = {
            "id": number, "text": piece.decode("utf-8", "replace"), "bytes": list(piece),
            "origin": "model" if number % 2 else "<b>copy</b>", "logprob": -0.1,
            "top": [{"id": 1, "text": text[:200], "logprob": -1.0}],
        }  # fmt: skip
        step = {"width": 2, "drafted": 1, "accepted": 1, "replayed": 0, "ms": 1.5, "drafter": "copy", "tokens": 1}
        lines.append({"type": "foretoken.step", "choices": [], "index": 0, "step": step, "tokens": [token]})
    lines.append({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]})
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "timings": {}})
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in lines) + b"data: [DONE]\n\n"


def told(page: Page, text: str, prompt: str) -> None:
    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="text/event-stream", headers={"x-request-id": "a"}, body=events(text))

    n_answers = page.locator(".to-request").count()
    page.route("**/v1/chat/completions", answer)
    page.locator("#say").fill(prompt)
    page.keyboard.press("Enter")
    # Not the link of the answer before, which is there already.
    expect(page.locator(".to-request")).to_have_count(n_answers + 1, timeout=20_000)
    expect(page.locator(".to-request").last).to_be_visible(timeout=20_000)
    page.unroute("**/v1/chat/completions")


@pytest.fixture
def page(open_page: OpenPage) -> Page:
    return open_page()


@pytest.mark.parametrize("exact", [False, True], ids=["formatted", "exact"])
def test_nothing_a_model_says_is_executed(page: Page, server: RunningServer, exact: bool) -> None:
    page.locator("#switch-exact").set_checked(exact)
    for name, text in HOSTILE.items():
        told(page, text, text)
        answer = page.locator(".message.assistant").last
        for tag in ("script", "img", "svg", "iframe", "style", "link", "base", "b"):
            assert answer.locator(f".answer {tag}").count() == 0, name
        links = answer.locator("a:not(.to-request)").evaluate_all("(all) => all.map((a) => a.href)")
        assert all(link.startswith(("http://", "https://", "mailto:")) for link in links), name
        token = answer.locator(".token:visible").first
        if token.count():
            token.hover()
        page.locator(".new-chat").click()
    assert page.evaluate("window.pwned") is None
    assert page.title() == "foretoken"
    assert page.evaluate("document.body.checkVisibility()")


def test_what_was_said_is_all_there(page: Page) -> None:
    """Not executed is not lost: the exact view shows every character."""
    page.locator("#switch-exact").check()
    for name in ("script", "handler", "ansi", "entities", "stars"):
        told(page, HOSTILE[name], "x")
        shown = page.locator(".exact").last.evaluate("(e) => e.textContent")
        escaped = "".join(
            chr(0x2400 + ord(c)) if ord(c) < 32 else "\u2421" if c == "\x7f" else c for c in HOSTILE[name]
        )
        assert shown == escaped, name


def test_huge_lines_and_broken_characters(page: Page) -> None:
    told(page, "x" * 60_000, "long")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    told(page, "héllo 👩‍👩‍👧 " * 50, "split characters")
    page.locator("#switch-exact").check()
    shown = page.locator(".exact").last.evaluate("(e) => e.textContent")
    assert shown == "héllo 👩‍👩‍👧 " * 50


def test_markdown_is_formatted(page: Page) -> None:
    told(page, "# Title\n\nSome **bold** and `code`.\n\n1. one\n2. two\n\n```python\nprint(1)\n```\n", "x")
    said = page.locator(".said").last
    assert said.locator("h3").inner_text() == "Title"
    assert said.locator("strong").inner_text() == "bold"
    assert said.locator("ol li").all_inner_texts() == ["one", "two"]
    assert said.locator("pre").inner_text() == "print(1)"
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    said.get_by_role("button", name="Copy this code").click()
    expect(said.get_by_role("button", name="Copy this code")).to_have_text("copied")
    assert page.evaluate("navigator.clipboard.readText()") == "print(1)"
