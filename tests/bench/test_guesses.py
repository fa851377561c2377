"""Guesses of a draft model, cut anew for another vocabulary."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.bench.gpu.guesses import Guess, pack, recut, unpack

GUESSES = st.lists(
    st.builds(Guess, st.integers(1, 6), st.booleans(), st.integers(0, 999).map(lambda n: n / 1000)), min_size=1
)


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[Guess], list[int]]:
    """Guesses, and the lengths of other tokens of the same text."""
    guesses = draw(GUESSES)
    n_bytes = sum(one.n_bytes for one in guesses)
    cuts = draw(st.sets(st.integers(1, max(1, n_bytes - 1))))
    ends = [*sorted(cut for cut in cuts if cut < n_bytes), n_bytes]
    return guesses, [end - start for start, end in zip([0, *ends], ends, strict=False)]


@given(GUESSES)
def test_what_is_packed_is_unpacked(guesses: list[Guess]) -> None:
    assert unpack(pack(guesses)) == tuple(guesses)


def test_nobody_is_quite_certain() -> None:
    assert pack([Guess(3, True, 1.0), Guess(1, False, 0.12345)]) == "3+999 1-123"


@given(texts())
def test_lengths_are_those_of_the_new_tokens(text: tuple[list[Guess], list[int]]) -> None:
    guesses, lengths = text
    assert [one.n_bytes for one in recut(guesses, lengths)] == lengths


@given(GUESSES)
def test_the_same_tokens_have_the_same_guesses(guesses: list[Guess]) -> None:
    assert recut(guesses, [one.n_bytes for one in guesses]) == tuple(guesses)


@given(texts(), st.data())
def test_one_guess_less_is_never_one_token_more(text: tuple[list[Guess], list[int]], data: st.DataObject) -> None:
    guesses, lengths = text
    which = data.draw(st.integers(0, len(guesses) - 1))
    worse = [replace(one, right=one.right and i != which) for i, one in enumerate(guesses)]
    before, after = recut(guesses, lengths), recut(worse, lengths)
    assert all(old.right or not new.right for old, new in zip(before, after, strict=True))


@given(texts())
def test_a_token_is_right_and_likely_as_all_that_it_overlaps(text: tuple[list[Guess], list[int]]) -> None:
    guesses, lengths = text
    by_byte = [i for i, one in enumerate(guesses) for _ in range(one.n_bytes)]
    start = 0
    for one in recut(guesses, lengths):
        overlapped = [guesses[i] for i in dict.fromkeys(by_byte[start : start + one.n_bytes])]
        expected = 1.0
        for old in overlapped:
            expected *= old.p
        assert one.right == all(old.right for old in overlapped)
        assert one.p == pytest.approx(expected)
        start += one.n_bytes


def test_nothing_is_guessed_behind_the_last_guess() -> None:
    assert recut([Guess(2, True, 0.5)], [2, 1]) == (Guess(2, True, 0.5), Guess(1, False, 0.0))
    assert recut([Guess(2, True, 0.5)], [3]) == (Guess(3, False, 0.0),)
    assert recut([], [1]) == (Guess(1, False, 0.0),)
