"""Whether the end of a text stood in it before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foretoken.speculation.familiar import Familiar

RUN = 4


def familiar_run(tokens: list[int]) -> int:
    """The same, looked up in all of the text."""
    run = 0
    for end in range(RUN, len(tokens) + 1):
        last = tokens[end - RUN : end]
        run = run + 1 if any(tokens[i : i + RUN] == last for i in range(end - RUN)) else 0
    return run


@given(st.lists(st.integers(0, 3), max_size=200), st.lists(st.integers(1, 90), max_size=8))
def test_it_is_what_looking_through_the_text_says(tokens: list[int], steps: list[int]) -> None:
    """However the text grew: token by token, many at once, or not at all."""
    familiar, n = Familiar(64), 0
    for step in steps:
        n = min(len(tokens), n + step)
        familiar.read(tokens[:n])
        assert familiar.read(tokens[:n]) == familiar.run
    found = familiar.read(tokens)
    expected = familiar_run(tokens)
    if len(tokens) - n <= 64 and all(step <= 64 for step in steps):
        assert found == expected
    else:
        # Of many tokens at once it remembers all, and counts from their end on.
        assert bool(found) == bool(expected)
        assert found <= expected


@given(st.integers(1, 50_000), st.integers(0, 2**31))
def test_what_never_stood_there_is_hardly_ever_taken_for_something_that_did(n: int, seed: int) -> None:
    familiar = Familiar(n)
    tokens = [(i * 2654435761 + seed) % 248_320 for i in range(min(n, 2000))]
    wrong = sum(familiar.read(tokens[: i + 1]) > 0 for i in range(max(0, len(tokens) - 200), len(tokens)))
    assert wrong <= 30
