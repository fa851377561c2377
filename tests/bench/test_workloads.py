"""The workloads: what ships, and how conversations become requests."""

from __future__ import annotations

import pytest

from foretoken.bench import workloads
from foretoken.bench.answers import Answer
from foretoken.bench.cases import Case, play
from foretoken.bench.workloads import Conversation, Workload
from foretoken.errors import ConfigError

CHAT = Workload("w", "a chat", "chat", 64, (Conversation("talk", ("one", "two"), "Well: "),))


def answered(text: str) -> Answer:
    return Answer(text, 1, 1.0, ())


def test_all_that_were_promised_are_there() -> None:
    assert set(workloads.names()) == {
        "quicksort-chat", "quicksort-trio", "code-edit", "refactor", "json-extraction", "summary-quotes", "free-prose",
        "shuffled-prose",
    }  # fmt: skip


@pytest.mark.parametrize("name", workloads.names())
def test_every_workload_is_complete(name: str) -> None:
    workload = workloads.load(name)
    assert workload.title
    assert 32 <= workload.max_tokens <= 1024
    assert workload.n_requests >= 3
    prompts = [turn for conversation in workload.conversations for turn in conversation.turns]
    assert len(set(prompts)) == len(prompts)
    assert not any("{{" in prompt for prompt in prompts), "an included file is missing"


def test_an_edit_shows_the_whole_file() -> None:
    (rename, *_) = workloads.load("code-edit").conversations
    assert len(rename.turns[0].splitlines()) > 140
    assert "def reserve(self" in rename.turns[0]


def test_nothing_repeats_in_shuffled_prose() -> None:
    for conversation in workloads.load("shuffled-prose").conversations:
        words = conversation.turns[0].split()
        assert len(words) == len(set(words)) > 100


def test_unknown_names_and_fields_are_refused() -> None:
    with pytest.raises(ConfigError, match="quicksort-trio"):
        workloads.load("quicksort")
    with pytest.raises(ConfigError, match="colour"):
        workloads.parse("x", {"colour": 1})
    with pytest.raises(ConfigError, match="chat or continuation"):
        workloads.parse("x", {"kind": "song"})


def test_answers_become_history() -> None:
    def render(messages: tuple[dict[str, str], ...]) -> str:
        return "|".join(message["content"] for message in messages) + ">"

    played = list(play(CHAT, render, lambda case: answered(f"<{len(case.messages)}>"), max_tokens=8))
    prompts = [case.prompt for case, _ in played]
    assert prompts == ["one>Well: ", "one|Well: <1>|two>Well: "]
    assert [case.label for case, _ in played] == ["w/talk 1", "w/talk 2"]
    assert {case.max_tokens for case, _ in played} == {8}


def test_without_a_template_answers_begin_as_they_like() -> None:
    played = list(play(CHAT, None, lambda case: answered("yes")))
    assert [message["content"] for message in played[1][0].messages] == ["one", "yes", "two"]


def test_a_conversation_ends_where_it_does_not_fit() -> None:
    def answer(case: Case) -> Answer | None:
        return answered("x") if len(case.messages) == 1 else None

    assert len(list(play(CHAT, None, answer))) == 1
