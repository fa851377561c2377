"""The chat as a person uses it, against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import TEXT
from tests.server.running import RunningServer, wait_until

OpenPage = Callable[..., Page]


def limit(page: Page, n: int, **settings: str) -> None:
    """Short greedy answers: the tiny model would talk for ever."""
    for name, value in {"max_tokens": str(n), "temperature": "0", **settings}.items():
        page.locator(f"#set-{name}").fill(value)


def say(page: Page, text: str = TEXT) -> Locator:
    """Send a message and wait for the end of its answer."""
    n = page.locator(".message.assistant").count()
    page.locator("#say").fill(text)
    page.keyboard.press("Enter")
    answer = page.locator(".message.assistant").nth(n)
    expect(answer.locator(".to-request")).to_be_visible()
    return answer


def body(text: str, n: int) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": n, "temperature": 0}


def kept(server: RunningServer, answer: Locator) -> dict[str, object]:
    """What the API says of the request behind an answer."""
    address = answer.locator(".to-request").get_attribute("href")
    found: dict[str, object] = httpx.get(f"{server.url}{address}").json()
    return found


def test_an_answer_is_the_models_and_its_colours_are_the_apis(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 96)
    page.locator("#switch-exact").check()
    answer = say(page)
    plain = httpx.post(f"{server.url}/v1/chat/completions", json=body(TEXT, 96)).json()
    choice = kept(server, answer)["choices"][0]  # type: ignore[index]
    assert choice["text"] == plain["choices"][0]["message"]["content"]
    shown = answer.locator(".exact .token").evaluate_all(
        "(all) => all.map((e) => [Number(e.dataset.i), e.textContent, e.className])"
    )
    drafters = httpx.get(f"{server.url}/props").json()["drafters"]
    tokens = choice["tokens"]
    assert "".join(text for _, text, _ in shown) == visible(choice["text"])
    for index, _, classes in shown:
        origin = tokens[index]["origin"]
        expected = "token" if origin == "model" else f"token guessed origin-{drafters.index(origin)}"
        assert classes.replace(" ends", "") == expected
    assert [index for index, _, _ in shown] == list(range(len(tokens)))
    assert any("guessed" in classes for _, _, classes in shown), "a text that repeats itself must be guessed at"
    legend = page.locator(".legend-place li").all_inner_texts()
    assert len(legend) == 1 + len({token["origin"] for token in tokens} - {"model"})


def test_a_link_is_not_drawn_anew_under_a_click(open_page: OpenPage) -> None:
    page = open_page()
    limit(page, 16)
    answer = say(page)
    answer.locator(".to-request").evaluate("(link) => { link.dataset.same = 'yes'; }")
    page.locator("#switch-exact").check()
    expect(answer.locator(".exact .token").first).to_be_visible()
    expect(answer.locator(".to-request")).to_have_attribute("data-same", "yes")


def visible(text: str) -> str:
    """As the page shows what cannot be seen."""
    return "".join(
        chr(0x2400 + ord(c)) if ord(c) < 32 and c not in "\n\t" else "\u2421" if c == "\x7f" else c for c in text
    )


def test_the_formatted_answer_has_the_same_colours(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 64)
    answer = say(page)
    tokens = kept(server, answer)["choices"][0]["tokens"]  # type: ignore[index]
    shown = answer.locator(".said .token").evaluate_all("(all) => all.map((e) => [Number(e.dataset.i), e.className])")
    assert shown
    for index, classes in shown:
        assert ("guessed" in classes) == (tokens[index]["origin"] != "model")
    page.locator("#switch-colours").uncheck()
    expect(answer.locator(".said .guessed").first).to_have_css("text-decoration-line", "none")


def test_a_token_tells_where_it_comes_from(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 64)
    page.locator("#switch-exact").check()
    answer = say(page)
    choice = kept(server, answer)["choices"][0]  # type: ignore[index]
    token = answer.locator(".exact .guessed").first
    token.hover()
    card = page.locator("#token-card")
    expect(card).to_be_visible()
    index = int(token.get_attribute("data-i") or "")
    told = card.inner_text()
    assert f"guessed by {choice['tokens'][index]['origin']}" in told
    step = step_of(choice, index)
    assert f"{step['width']} rows" in told
    assert f"{step['accepted']} of {step['drafted']} right" in told
    assert "probability" in told
    assert card.locator(".others li").count() == 4
    # The same with the keyboard alone.
    page.mouse.move(0, 0)
    expect(card).to_be_hidden()
    answer.locator(".answer").focus()
    page.keyboard.press("ArrowRight")
    expect(card).to_be_visible()
    expect(answer.locator(".here")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(card).to_be_hidden()


def step_of(choice: dict, index: int) -> dict:  # type: ignore[type-arg]
    at = 0
    for step in choice["steps"]:
        at += step["tokens"]
        if index < at:
            return step  # type: ignore[no-any-return]
    raise AssertionError("a token without a step")


def test_stop_ends_the_answer_and_frees_the_slot(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 100000)
    page.locator("#say").fill("Say a lot")
    page.keyboard.press("Enter")
    expect(page.locator(".cost strong").last).to_contain_text("tokens/s")
    page.keyboard.press("Escape")
    expect(page.locator(".cost")).to_contain_text("stopped")
    expect(page.get_by_role("button", name="Stop", exact=True).first).to_be_hidden()
    wait_until(server.idle, "the slot to be free")
    # And by the button.
    page.get_by_role("button", name="Regenerate this answer").click()
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator(".cost").last).to_contain_text("stopped")
    wait_until(server.idle, "the slot to be free")


def test_regenerate_and_branch(open_page: OpenPage, server: RunningServer) -> None:
    page = open_page()
    limit(page, 12)
    say(page, "first question")
    page.get_by_role("button", name="Regenerate this answer").click()
    expect(page.locator(".message.assistant .branches")).to_contain_text("2/2")
    expect(page.locator(".to-request")).to_be_visible()
    say(page, "second question")
    assert page.locator(".message").count() == 4
    # Another first question: the old conversation stays on its own branch.
    page.get_by_role("button", name="edit", exact=True).first.click()
    page.get_by_label("Edit this message").fill("another question")
    page.keyboard.press("Enter")
    expect(page.locator(".message.user .branches")).to_contain_text("2/2")
    expect(page.locator(".to-request")).to_be_visible()
    assert page.locator(".message").count() == 2
    address = page.locator(".to-request").get_attribute("href")
    prompt = httpx.get(f"{server.url}{address}").json()["prompt_end"]
    assert "another question" in prompt
    assert "first question" not in prompt
    page.get_by_role("button", name="The branch before").first.click()
    expect(page.locator(".mine").first).to_have_text("first question")
    assert page.locator(".message").count() == 4
    expect(page.locator(".message.assistant .branches").first).to_contain_text("2/2")


def test_the_settings_reach_the_server(open_page: OpenPage) -> None:
    page = open_page()
    limit(page, 8, seed="5", top_k="3")
    page.locator("#system").fill("You are a river.")
    page.locator("#switch-speculation").uncheck()
    page.locator("#probabilities").uncheck()
    with page.expect_request("**/v1/chat/completions") as asked:
        say(page)
    sent = json.loads(asked.value.post_data or "")
    assert sent["messages"][0] == {"role": "system", "content": "You are a river."}
    assert sent["speculative"] == {"type": "none"}
    assert (sent["max_tokens"], sent["temperature"], sent["seed"], sent["top_k"]) == (8, 0, 5, 3)
    assert "logprobs" not in sent
    assert page.locator(".guessed").count() == 0
    page.reload()
    assert page.locator("#system").input_value() == "You are a river."
    page.locator("#set-temperature").fill("-3")
    page.wait_for_selector(".status[data-state=ready]")
    with page.expect_request("**/v1/chat/completions") as asked:
        say(page)
    assert "temperature" not in json.loads(asked.value.post_data or ""), "what makes no sense is not sent"
