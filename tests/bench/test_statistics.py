"""Ratios and how far they can be trusted."""

from __future__ import annotations

import pytest

from foretoken.bench.answers import Answer
from foretoken.bench.statistics import Ratio, Sample, paired_ratio, ratio, sample, speed


def rounds(n_tokens: int, *ms: float) -> list[Sample]:
    return [Sample(n_tokens, value) for value in ms]


def test_speed_of_groups_with_the_same_rounds() -> None:
    assert speed([rounds(100, 1000, 1000, 9000)]) == pytest.approx(100.0)
    assert speed([rounds(100, 1000), rounds(100, 3000)]) == pytest.approx(50.0)


def test_a_ratio_has_an_interval_that_holds_it() -> None:
    plain = [rounds(100, 1000, 1100, 900, 1050, 980), rounds(50, 500, 520, 510, 490, 505)]
    other = [rounds(100, 500, 560, 470, 510, 480), rounds(50, 250, 255, 249, 260, 251)]
    found = ratio(plain, other)
    assert found.low is not None
    assert found.high is not None
    assert 1.8 < found.low <= found.value <= found.high < 2.2
    assert ratio(plain, other) == found, "the same measurements give the same interval"


def test_what_slows_both_down_does_not_widen_the_interval() -> None:
    noise = (1.0, 5.0, 1.0, 2.0, 1.5)
    plain = [rounds(100, *(1000 * n for n in noise))]
    other = [rounds(100, *(500 * n for n in noise))]
    assert ratio(plain, other) == Ratio(2.0, 2.0, 2.0)


def test_a_machine_that_changes_between_rounds_does_not_disturb_pairs() -> None:
    speeds = (1.0, 2.5, 1.3, 0.9, 1.7)
    plain = [rounds(100, *(1000 * s for s in speeds)), rounds(50, *(700 * s for s in speeds[::-1]))]
    other = [rounds(100, *(500 * s for s in speeds)), rounds(50, *(700 * s for s in speeds[::-1]))]
    found = paired_ratio(plain, other)
    assert (found.value, found.low, found.high) == pytest.approx((1700 / 1200,) * 3)


def test_pairs_weigh_by_the_time_they_take_plainly() -> None:
    plain, other = [rounds(100, 3000), rounds(100, 1000)], [rounds(100, 1000), rounds(100, 1000)]
    assert paired_ratio(plain, other) == Ratio(2.0)
    assert paired_ratio([rounds(0, 0.0), *plain], [rounds(0, 0.0), *other]) == Ratio(2.0)
    assert paired_ratio([rounds(0, 0.0, 0.0)], [rounds(0, 0.0, 0.0)]) == Ratio(0.0)


def test_one_round_that_was_disturbed_for_one_of_a_pair_is_outvoted() -> None:
    plain, other = [rounds(100, 1000, 1000, 1000)], [rounds(100, 500, 5000, 500)]
    assert paired_ratio(plain, other).value == pytest.approx(2.0)


def test_one_round_has_no_interval() -> None:
    assert ratio([rounds(10, 100)], [rounds(10, 50)]) == Ratio(2.0)
    assert str(Ratio(2.0)) == "2.00"
    assert str(Ratio(2.0, 1.5, 2.5)) == "2.00 [1.50, 2.50]"


def test_other_lengths_are_compared_per_token() -> None:
    assert ratio([rounds(10, 100)], [rounds(20, 100)]).value == pytest.approx(2.0)


def test_one_answer_is_timed_by_its_maker() -> None:
    assert sample([Answer("text", 11, 200.0, ((1.0, 1), (9.0, 10)))]) == Sample(10, 200.0)


def test_answers_at_once_are_timed_from_when_all_have_begun() -> None:
    early = Answer("", 6, 0.0, ((0.0, 1), (1.0, 2), (2.0, 3)))
    late = Answer("", 5, 0.0, ((1.0, 1), (3.0, 4)))
    assert sample([early, late]) == Sample(7, 2000.0)


def test_answers_that_never_overlap_are_timed_as_a_whole() -> None:
    first = Answer("", 2, 0.0, ((0.0, 1), (1.0, 1)))
    second = Answer("", 1, 0.0, ((3.0, 1),))
    assert sample([first, second]) == Sample(2, 3000.0)
    assert sample([Answer("", 0, 0.0, ()), Answer("", 0, 0.0, ())]) == Sample(0, 0.0)


def test_answers_that_end_at_once_say_nothing() -> None:
    assert ratio([rounds(0, 0.0, 0.0)], [rounds(0, 0.0, 0.0)]) == Ratio(0.0)
    assert ratio([rounds(0, 0.0), rounds(10, 100)], [rounds(0, 0.0), rounds(10, 50)]).value == pytest.approx(2.0)
