"""An index that grew out of another is the index of its text; nobody gets what was read for somebody else."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.speculation.base import DraftAsk
from foretoken.speculation.drafters.copy import CopyDrafter
from foretoken.speculation.drafters.run_index import RunIndex, Shelf, ids_of
from foretoken.speculation.drafters.suffix import SuffixIndex

SIZES = (16, 6, 3, 1)

texts = st.lists(st.integers(0, 3), max_size=60)


def by_hand(tokens: list[int], run: tuple[int, ...]) -> list[int]:
    n = len(run)
    return [end for end in range(n, len(tokens) + 1) if tuple(tokens[end - n : end]) == run]


def conversation(n: int, seed: int = 0) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(0, 300, n)]


@given(shared=texts, before=texts, after=texts)
@settings(max_examples=300, deadline=None)
def test_a_grown_index_is_that_of_its_text(shared: list[int], before: list[int], after: list[int]) -> None:
    known = RunIndex(ids_of([*shared, *before]), SIZES)
    text = [*shared, *after]
    grown = RunIndex(ids_of(text), SIZES, known, len(shared))
    assert grown.n_new == len(after)
    for n in SIZES:
        runs = {tuple(text[end - n : end]) for end in range(n, len(text) + 1)}
        gone = {tuple([*shared, *before][end - n : end]) for end in range(n, len(shared) + len(before) + 1)}
        for run in runs | gone:
            assert list(grown.ends(run)) == by_hand(text, run)


@given(known=st.integers(1, 40), text=st.lists(st.integers(0, 2), min_size=41, max_size=80), step=st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_it_does_not_matter_how_much_of_a_text_was_known(known: int, text: list[int], step: int) -> None:
    alone, helped = SuffixIndex(), SuffixIndex(RunIndex(ids_of(text[:known]), (16, 6, 3)))
    for end in [*range(known, len(text), step), len(text)]:
        alone.extend(text[:end])
        helped.extend(text[:end])
        assert helped.find(text[:end][-64:], text[:end], 8) == alone.find(text[:end][-64:], text[:end], 8)


def test_of_a_conversation_that_goes_on_only_what_is_new_is_read() -> None:
    shelf, text = Shelf(SIZES), conversation(9000)
    new = [shelf.read("a", text[:n]).n_new for n in accumulate([4000, 300, 2000, 1200])]
    assert new == [4000, 300, 2000, 1200]
    # An answer is asked for again, the last question is changed, thoughts are taken out of the last turn.
    assert shelf.read("a", text[:7500]) is shelf.read("a", text[:7500])
    assert shelf.read("a", [*text[:7400], *[7] * 200]).n_new == 200
    assert shelf.read("a", [*text[:7000], *[8] * 900]).n_new == 900


def test_texts_that_begin_alike_are_both_kept() -> None:
    shelf, system = Shelf(SIZES), conversation(1000)
    one, two = [*system, *conversation(3000, 1)], [*system, *conversation(3000, 2)]
    assert [shelf.read("a", text).n_new for text in (one, two, [*one, 1], [*two, 2])] == [4000, 3000, 1, 1]


def test_nothing_is_taken_over_from_another_owner() -> None:
    shelf, text = Shelf(SIZES), conversation(3000)
    shelf.read("a", text)
    for owner in ("b", None, None):
        assert shelf.read(owner, text).n_new == 3000
    assert shelf.read("a", [*text, 5]).n_new == 1


def test_what_is_kept_is_bounded() -> None:
    shelf = Shelf(SIZES, max_texts=4, max_tokens=20_000)
    for seed in range(30):
        shelf.read(f"owner {seed % 7}", conversation(3000, seed))
    assert shelf.memory_bytes() < 4 * 3000 * (12 * len(SIZES) + 8)
    shelf.read("a", conversation(19_000, 99))
    assert shelf.read("a", conversation(19_000, 99)).n_new == 19_000
    assert shelf.memory_bytes() < 20_000 * (12 * len(SIZES) + 8)


def test_a_copy_is_the_same_whatever_was_read_before() -> None:
    text = conversation(2000)
    used = CopyDrafter()
    for n in (700, 900, 1500, 1200):
        used.begin(0, [*text[:n], 3, 4], "a")
        used.end(0)
    for drafter in (used, fresh := CopyDrafter()):
        drafter.begin(0, text, "a")
    answer = [*text[600:640], 999, *text[641:680]]
    for n in range(1, len(answer)):
        asked = [DraftAsk(0, [*text, *answer[:n]], 16)]
        assert used.draft(asked) == fresh.draft(asked)
