"""Listening to how sure the model is, and who may prove what because of it."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from foretoken.speculation.adaptive import AdaptivePlanner
from foretoken.speculation.base import NO_DRAFT, Draft, Verdict
from foretoken.speculation.certainty import ENOUGH, Certainty
from foretoken.speculation.planner import Step
from tests.unit.speculation.test_planner import ask, planner, remembered


def test_a_model_that_is_sure_of_enough_tokens_in_a_row_is_sure() -> None:
    certainty = Certainty()
    for n in range(1, ENOUGH):
        certainty.hear(0.99, n)
        assert not certainty.enough
    certainty.hear(0.99, ENOUGH)
    assert certainty.enough


def test_where_it_is_not_sure_it_is_listened_to_ever_less_often() -> None:
    certainty, looks = Certainty(), []
    for n in range(1, 400):
        if n >= certainty.listens_at:
            certainty.hear(0.3, n)
            looks.append(n)
    waits = np.diff(looks)
    assert len(looks) <= 5
    assert all(waits[1:] > waits[:-1])


class Answer:
    """A request beside a drafter in doubt, while a model says so much with such certainty."""

    def __init__(self, p: AdaptivePlanner) -> None:
        self.planner = p
        self.n_looks = 0
        p.demand_proof("slow")

    def say(self, certainty: float | None) -> int:
        """One token, said plainly; how many the drafter should have guessed in hindsight before it."""

        def look() -> float | None:
            self.n_looks += 1
            return certainty

        asked = self.planner.worth_asking([replace(ask(), certainty=look)])
        n = self.planner.doubts(ask(), "slow", []) if asked else 0
        happened: tuple[object, ...] = ({0: []}, {0: {"a": 0.5}}, {0}) if asked else ({}, {}, set())
        self.planner.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, *happened))  # type: ignore[arg-type]
        return n


def test_a_proof_comes_early_where_the_model_was_sure_and_never_where_it_was_not() -> None:
    sure, unsure = Answer(planner()), Answer(planner())
    assert next(n for n in range(1, 40) if sure.say(0.99)) <= ENOUGH + 1
    assert not any(unsure.say(0.3) for _ in range(300))
    assert unsure.n_looks <= 5


def test_where_nobody_knows_how_sure_the_model_was_a_proof_takes_more_tokens() -> None:
    unknown = Answer(planner())
    wanted = [unknown.say(None) for _ in range(40)]
    assert next(n for n, proof in enumerate(wanted) if proof) >= 16
    assert max(wanted) == 16


@pytest.mark.parametrize(("n_right", "passes"), [(8, True), (7, True), (4, False)])
def test_one_mistake_does_not_refute_a_drafter_where_the_model_was_sure(n_right: int, passes: bool) -> None:
    p = planner()
    answer = Answer(p)
    while not (n := answer.say(0.99)):
        pass
    text = list(range(40))
    guesses = remembered(text, n, 1.0)
    guesses = Draft((-1,) * (n - n_right) + guesses.tokens[n - n_right :], guesses.confidence, "slow")
    p.proved(replace(ask(), tokens=text), "slow", guesses, 1.0)
    assert p.too_dear(ask(), "slow", []) is not passes


def test_after_a_proof_that_failed_the_model_must_be_sure_again() -> None:
    p = planner()
    answer = Answer(p)
    while not (n := answer.say(0.99)):
        pass
    text = list(range(40))
    p.proved(replace(ask(), tokens=text), "slow", remembered(text, n, 0.2), 0.01)
    again = [i for i in range(100) if answer.say(0.99)]
    assert again[0] >= 2 * ENOUGH - 1
