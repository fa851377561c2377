"""What holds for every text drafter, whatever it is asked."""

from __future__ import annotations

import inspect
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Drafter, Verdict
from foretoken.speculation.drafters import TEXT_DRAFTERS
from foretoken.speculation.drafters.copy import CopyDrafter
from foretoken.speculation.drafters.text import TextDrafter

Kind = type[TextDrafter[Any]]

SMALL: dict[str, dict[str, Any]] = {
    "ngram-simple": {"size_n": 2, "size_m": 5},
    "ngram-map-k": {"size_n": 2, "size_m": 5},
    "ngram-map-k4v": {"size_n": 2, "size_m": 3},
    "ngram-mod": {"n_match": 3, "n_max": 6, "pool_bits": 10},
}
"""Options that make short random sequences worth drafting from."""

every = pytest.mark.parametrize("kind", TEXT_DRAFTERS, ids=lambda kind: kind.name)
sequences = st.lists(st.integers(0, 4), max_size=80)


def make(kind: Kind) -> TextDrafter[Any]:
    return kind(**SMALL.get(kind.name, {}))


def ask(drafter: TextDrafter[Any], tokens: list[int], n_max: int = 8, seq: int = 0) -> Draft:
    return drafter.draft([DraftAsk(seq, tokens, n_max)])[0]


def drafts(
    drafter: TextDrafter[Any], tokens: list[int], cuts: list[int], seq: int = 0, owner: str = "a"
) -> list[Draft]:
    """Begin with the tokens up to the first cut, then ask after each further one."""
    steps = sorted({min(cut, len(tokens)) for cut in cuts} | {len(tokens)})
    drafter.begin(seq, tokens[: steps[0]], owner)
    return [ask(drafter, tokens[:step], seq=seq) for step in steps]


@every
def test_is_a_drafter_with_documented_options(kind: Kind) -> None:
    drafter: Drafter = kind()
    assert drafter.name == kind.name != ""
    options = inspect.signature(kind).parameters.values()
    assert all(option.kind is option.KEYWORD_ONLY and option.default is not option.empty for option in options)


@every
@given(tokens=sequences, cuts=st.lists(st.integers(0, 80), max_size=8), n_max=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_drafts_are_well_formed(kind: Kind, tokens: list[int], cuts: list[int], n_max: int) -> None:
    drafter = make(kind)
    drafter.begin(0, tokens[: len(tokens) // 2], "a")
    for cut in sorted(cuts):
        seen = tokens[: max(cut, len(tokens) // 2)]
        draft = ask(drafter, seen, n_max)
        assert len(draft.tokens) == len(draft.confidence) <= n_max
        assert set(draft.tokens) <= set(seen)
        assert all(0 < confidence <= 1 for confidence in draft.confidence)
        assert draft == NO_DRAFT or draft.source == kind.name


@every
@given(tokens=sequences, cuts=st.lists(st.integers(0, 80), max_size=8), accepted=st.lists(st.integers(0, 8)))
@settings(max_examples=40, deadline=None)
def test_is_deterministic(kind: Kind, tokens: list[int], cuts: list[int], accepted: list[int]) -> None:
    def play() -> list[Draft]:
        drafter = make(kind)
        drafter.begin(0, tokens[:10], "a")
        given_drafts = []
        for cut, n in zip(sorted(max(cut, 10) for cut in cuts), [*accepted, *[0] * 8], strict=False):
            draft = ask(drafter, tokens[:cut])
            given_drafts.append(draft)
            n = min(n, len(draft))
            if draft:
                drafter.accept(0, Verdict(draft, (*draft.tokens[:n], 0), n))
        return given_drafts

    assert play() == play()


@every
@given(one=sequences, two=sequences, cuts=st.lists(st.integers(0, 80), max_size=6))
@settings(max_examples=40, deadline=None)
def test_slots_are_independent(kind: Kind, one: list[int], two: list[int], cuts: list[int]) -> None:
    alone = make(kind), make(kind)
    together = make(kind)
    for seq, tokens in ((0, one), (1, two)):
        alone[seq].begin(seq, tokens[:5], f"owner {seq}")
        together.begin(seq, tokens[:5], f"owner {seq}")
    for cut in sorted(max(cut, 5) for cut in cuts):
        asks = [DraftAsk(0, one[:cut], 6), DraftAsk(1, two[:cut], 6)]
        expected = [alone[seq].draft([asks[seq]])[0] for seq in (0, 1)]
        assert together.draft(asks) == expected


@pytest.mark.parametrize(
    "kind", [kind for kind in TEXT_DRAFTERS if kind is not CopyDrafter], ids=lambda kind: kind.name
)
@given(tokens=sequences, cuts=st.lists(st.integers(0, 80), max_size=8))
@settings(max_examples=60, deadline=None)
def test_growing_equals_starting_afresh(kind: Kind, tokens: list[int], cuts: list[int]) -> None:
    # Not for `copy`: what it copies from is the prompt, and that is not the same for both.
    assert drafts(make(kind), tokens, cuts)[-1] == drafts(make(kind), tokens, [len(tokens)])[-1]


@every
@given(tokens=st.lists(st.integers(0, 300), min_size=600, max_size=900), step=st.integers(20, 300))
@settings(max_examples=5, deadline=None)
def test_growing_equals_starting_afresh_at_length(kind: Kind, tokens: list[int], step: int) -> None:
    if kind is not CopyDrafter:
        tokens = tokens + tokens[100:400]
        cuts = list(range(step, len(tokens), step))
        assert drafts(make(kind), tokens, cuts)[-1] == drafts(make(kind), tokens, [len(tokens)])[-1]


@every
@given(secret=sequences, tokens=sequences)
@settings(max_examples=40, deadline=None)
def test_nothing_of_one_owner_serves_another(kind: Kind, secret: list[int], tokens: list[int]) -> None:
    drafter = make(kind)
    drafts(drafter, secret, [len(secret) // 2], seq=0, owner="a")
    begun = drafts(drafter, tokens, [3, 10], seq=1, owner="b")
    drafter.end(0)
    assert begun == drafts(make(kind), tokens, [3, 10])
    drafter.end(1)
    assert drafts(drafter, secret, [3, 10], seq=1, owner="c") == drafts(make(kind), secret, [3, 10])


@every
def test_nobody_shares_with_a_sequence_that_was_never_begun(kind: Kind) -> None:
    drafter = make(kind)
    tokens = list(range(40))
    for cut in range(10, 40, 5):
        ask(drafter, tokens[:cut])
    drafter.end(0)
    fresh = ask(make(kind), tokens[:12], seq=1)
    assert ask(drafter, tokens[:12], seq=1) == fresh == NO_DRAFT


@every
def test_beginning_again_resets_the_slot(kind: Kind) -> None:
    drafter = make(kind)
    first, second = [1, 2, 3, 4] * 6, [7, 8, 9] * 2 + [1, 2, 3]
    drafts(drafter, first, [12], owner="a")
    assert drafts(drafter, second, [6], owner="b") == drafts(make(kind), second, [6], owner="b")


@every
def test_works_without_begin(kind: Kind) -> None:
    tokens = [1, 2, 3, 4, 5, 6, 7, 8] * 5
    drafter = make(kind)
    assert ask(drafter, []) == NO_DRAFT
    assert ask(drafter, tokens[:20]) == ask(drafter, tokens[:20])
    grown = ask(drafter, tokens)
    assert len(grown) <= 8
    if kind is not CopyDrafter:
        assert grown.tokens[:3] == (1, 2, 3)


@every
def test_a_sequence_that_shrank_is_read_again(kind: Kind) -> None:
    drafter = make(kind)
    tokens = [1, 2, 3, 4, 5, 6] * 6
    drafts(drafter, tokens, [10], owner="a")
    changed = [9, 8, 7, 6, 5] * 5
    fresh = make(kind)
    assert ask(drafter, changed).tokens[:4] == ask(fresh, changed).tokens[:4]


@every
def test_strangers_cost_nothing(kind: Kind) -> None:
    drafter = make(kind)
    drafter.end(5)
    drafter.accept(5, Verdict(NO_DRAFT, (1,), 0))
    assert drafter.draft([]) == []
    assert ask(drafter, [1, 2, 3] * 9, n_max=0) == NO_DRAFT
    assert drafter.memory_bytes() >= 0


@every
def test_takes_any_sequence_type(kind: Kind) -> None:
    tokens = tuple([1, 2, 3, 4, 5] * 8)
    drafter = make(kind)
    drafter.begin(0, tokens[:20], "a")
    assert len(drafter.draft([DraftAsk(0, tokens, 4)])[0]) <= 4


@every
def test_memory_goes_when_requests_end(kind: Kind) -> None:
    drafter = make(kind)
    tokens = [i * i % 97 for i in range(3000)]
    for round_ in range(40):
        drafter.begin(0, tokens, f"owner {round_}")
        ask(drafter, [*tokens, 1, 2, 3])
        drafter.end(0)
    after_many = drafter.memory_bytes()
    assert after_many < 4_000_000


@every
def test_asks_leave_the_sequence_alone(kind: Kind) -> None:
    drafter = make(kind)
    tokens = [1, 2, 3, 4, 5, 6] * 4
    before = list(tokens)
    drafter.begin(0, tokens, "a")
    for _ in pairwise(tokens):
        ask(drafter, tokens)
    assert tokens == before
