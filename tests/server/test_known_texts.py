"""Texts tokenised in parts, some of them known: the same tokens, and nobody else's texts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.llama.vocabulary import Vocabulary
from foretoken.models import path_of
from foretoken.server.known_texts import KnownTexts
from foretoken.worker.vocabulary import open_vocabulary

ENDS = ("<|im_end|>", "<|endoftext|>")
WORDS = (
    *ENDS, "<|im_start|>user\n", "<|", "|>", "<", "im_end", "\n", "\n\n", " ", "    ", "def f(x):", " return", "é",
    "日本", "1", "",
)  # fmt: skip


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[Vocabulary]:
    with open_vocabulary(path_of("mini")) as found:
        yield found


def turns(n: int) -> str:
    return "".join(f"<|im_start|>user\nSay {i} times {i * 7}.<|im_end|>\n" for i in range(n))


def test_what_separates(vocabulary: Vocabulary) -> None:
    assert sorted(vocabulary.separators) == sorted(ENDS)


@given(words=st.lists(st.sampled_from(WORDS), max_size=60), more=st.lists(st.sampled_from(WORDS), max_size=20))
@settings(max_examples=300, deadline=None)
def test_the_tokens_are_those_of_the_whole_text(vocabulary: Vocabulary, words: list[str], more: list[str]) -> None:
    known = KnownTexts(vocabulary, short=0)
    for text in ("".join(words), "".join(words), "".join([*words, *more])):
        assert known.tokenize(text, "a") == vocabulary.tokenize(text)


def test_of_a_conversation_that_goes_on_only_the_end_is_tokenised(vocabulary: Vocabulary) -> None:
    known, before = KnownTexts(vocabulary), turns(400)
    assert known.tokenize(before, "a") == vocabulary.tokenize(before)
    assert known.n_tokenized == len(before)
    after = turns(402) + "<|im_start|>assistant\n"
    assert known.tokenize(after, "a") == vocabulary.tokenize(after)
    assert known.n_tokenized - len(before) < 3 * len(turns(402)) - 3 * len(turns(400))


def test_owners_share_nothing(vocabulary: Vocabulary) -> None:
    known, text = KnownTexts(vocabulary), turns(400)
    known.tokenize(text, "a")
    known.tokenize(text, "b")
    assert known.n_tokenized == 2 * len(text)


def test_short_texts_are_not_kept(vocabulary: Vocabulary) -> None:
    known = KnownTexts(vocabulary)
    assert known.tokenize(turns(3), "a") == vocabulary.tokenize(turns(3))
    assert known.n_characters == 0


def test_what_is_kept_is_bounded_and_the_oldest_goes(vocabulary: Vocabulary) -> None:
    known = KnownTexts(vocabulary, max_characters=200_000)
    for number in range(12):
        text = f"{number}" + turns(400)[: 9000 + number] + "x" * number
        assert known.tokenize(text, f"owner {number}") == vocabulary.tokenize(text)
        assert known.n_characters <= 200_000
    n = known.n_tokenized
    known.tokenize(text, "owner 11")
    assert known.n_tokenized == n
    huge = "x" * 250_000
    assert known.tokenize(huge, "a") == vocabulary.tokenize(huge)
    assert known.n_characters <= 200_000
