"""The benchmark of the text drafters measures what it says."""

from __future__ import annotations

from foretoken.bench.drafters import CHANGES, Pieces, Stream, cost, measure, simulate, streams
from foretoken.speculation.drafters import TEXT_DRAFTERS
from foretoken.speculation.drafters.ngram_simple import NgramSimpleDrafter


def test_counts_add_up() -> None:
    answer = [1, 2, 3, 4] * 10
    done = simulate(NgramSimpleDrafter(size_n=2, size_m=4), Stream("", [9], answer))
    assert done["accepted"] <= done["drafted"]
    assert len(answer) - done["steps"] <= done["accepted"] <= len(answer)


def test_pieces_give_the_text_back() -> None:
    pieces = Pieces()
    text = "def f(x_y):\n    return x_y + 1  # done\n"
    numbers = pieces.encode(text)
    names = {number: piece for piece, number in pieces._ids.items()}
    assert "".join(names[number] for number in numbers) == text


def test_every_kind_of_answer_is_there() -> None:
    assert {stream.name for stream in streams(["bisect.py"])} == {*CHANGES, "free text"}


def test_costs_are_positive() -> None:
    for kind in TEXT_DRAFTERS:
        figures = cost(kind(), 2000, 20)
        assert all(value >= 0 for value in figures.values())


def test_one_row_per_drafter() -> None:
    rows = measure(n_history=1000, n_steps=5, names=["bisect.py"])
    assert [row["drafter"] for row in rows] == [kind.name for kind in TEXT_DRAFTERS]
    assert all({"begin_ms", "draft_us", "draft_us_p99", "memory_mb", "streams"} <= row.keys() for row in rows)
