"""Several slots share every step: what one of them is asked, all of them wait for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foretoken.speculation.adaptive import AdaptivePlanner
from foretoken.speculation.allowance import Allowance
from foretoken.speculation.base import NO_DRAFT, DraftAsk, Verdict
from foretoken.speculation.pause import LONGEST, Pause
from foretoken.speculation.planner import Step
from foretoken.speculation.sizing import MemoryCost
from tests.unit.speculation.test_planner import GPU, ask, planner, remembered

LINEAR = {1: 10.0, 2: 20.0, 4: 40.0, 8: 80.0, 16: 160.0, 32: 320.0, 64: 640.0}
"""A machine on which every row takes as long as the first: drafts of one slot are at the expense of the others."""


def say(p: AdaptivePlanner, n_slots: int, n_steps: int, spent_ms: float = 1.0, certainty: float = 0.99) -> list[int]:
    """Plain steps of several slots; for how many of them somebody was asked, step by step."""
    asked = []
    for _ in range(n_steps):
        asks = [replace(ask(seq), certainty=lambda: certainty) for seq in range(n_slots)]
        wanted = {one.seq for one in p.worth_asking(asks)}
        asked.append(len(wanted))
        plain_ms, rows = p.cost((1,) * n_slots), dict.fromkeys(range(n_slots), 1)
        took_ms = plain_ms + spent_ms * len(wanted)
        if wanted or not p.rested(rows, took_ms, None):
            verdicts = {seq: Verdict(NO_DRAFT, (999,), 0) for seq in range(n_slots)}
            spent = {seq: {"a": spent_ms} for seq in wanted}
            p.observe(Step(rows, took_ms, False, verdicts, {}, spent, wanted))
    return asked


@given(st.floats(0.01, 5.0), st.floats(1.0, 50.0), st.integers(1, 2000))
def test_asking_in_vain_takes_no_more_than_its_share_of_the_time(ask_ms: float, plain_ms: float, n_steps: int) -> None:
    allowance, spent_ms = Allowance(), 0.0
    for _ in range(n_steps):
        if not allowance.steps_to_next(plain_ms):
            allowance.pay(ask_ms)
            spent_ms += ask_ms
        allowance.earn(plain_ms)
    assert spent_ms <= 0.005 * n_steps * plain_ms + 1.5 * plain_ms + ask_ms


def test_requests_that_begin_together_are_no_reason_to_ask_what_cannot_be_afforded() -> None:
    p = planner(LINEAR)
    say(p, 4, 40, spent_ms=30.0)
    assert p._n_to_afford() > 100
    for seq in range(4):
        p.end(seq)
    assert not any(say(p, 4, 40)), "what was spent before must come in again first"
    assert len(p._requests) == 4, "all of them are known all the same"


def test_what_drafts_save_pays_for_asking() -> None:
    allowance = Allowance()
    while not allowance.steps_to_next(10.0):
        allowance.pay(1.0)
    allowance.earn(10.0, saved_ms=50.0)
    assert not allowance.steps_to_next(10.0)


def test_four_slots_that_nobody_helps_are_hardly_slower() -> None:
    p = planner(LINEAR)
    n_asked = sum(say(p, 4, 2000))
    assert 1.0 * n_asked <= 0.006 * 2000 * 40.0 + 1.5 * 40.0 + 10.0
    assert sum(say(p, 4, 2000)) > 0, "but it does not end: the next text may be another one"


def test_a_slot_alone_with_its_drafts_is_put_off_where_that_cannot_pay() -> None:
    def could_pay(table: dict[int, float], n_asked: int, in_passes: bool = False) -> bool:
        p = planner(table, MemoryCost(replays=in_passes))
        p.worth_asking([ask(seq) for seq in range(4)])
        return p._could_pay(n_asked)

    assert not could_pay(LINEAR, 1), "three would wait for one"
    flat = {1: 10.0, 4: 14.0, 8: 22.0, 16: 40.0, 32: 70.0}
    assert not could_pay(flat, 3, in_passes=True), "three would win more than the fourth loses, who waits too long"
    assert could_pay(flat, 4, in_passes=True)
    assert could_pay(GPU, 1), "rows are cheap"
    assert could_pay(GPU, 4)


def test_one_that_has_proved_itself_in_a_slot_may_do_so_in_the_others_at_once() -> None:
    p = planner(GPU)
    p.demand_proof("slow")
    p._prices.proved("slow", True, 1.0)
    text = list(range(40))

    def doubts(seq: int) -> int:
        return p.doubts(ask(seq), "slow", [])

    say(p, 2, 30, certainty=0.3)
    assert not doubts(0), "the model is not sure of what it says"
    assert not doubts(1)
    p.proved(replace(DraftAsk(0, text, 8), seq=0), "slow", remembered(text, 8, 1.0), 1.0)
    assert doubts(1), "its drafts are worth more if the other slot has some too"


def test_drafts_of_one_slot_wait_until_those_of_others_come_with_them() -> None:
    p = planner(LINEAR)
    p.demand_proof("slow")
    say(p, 4, 1)
    for request in p._requests.values():
        request.trusts["slow"] = False
    p._requests[0].trust("slow")
    assert p.too_dear(ask(0), "slow", []), "the others would lose more"
    cheap = planner(GPU)
    cheap.demand_proof("slow")
    say(cheap, 2, 1)
    for request in cheap._requests.values():
        request.trust("slow")
    assert not cheap.too_dear(ask(0), "slow", [])


def test_a_slot_that_is_put_off_waits_however_right_its_drafts_would_have_been() -> None:
    pause = Pause()
    for _ in range(8):
        pause.asked_in_vain(0, 1.0, 10.0)
    pause.put_off(step=100)
    assert not pause.heard(40)
    assert pause.lasts


def test_a_request_for_which_no_drafter_is_allowed_is_none_of_the_planners_business() -> None:
    p = planner()
    for _ in range(100):
        if not p.rested({0: 1}, 10.0, None):
            p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {}))
    assert not p._requests
    assert p.saved_ms(0) == 0.0


def test_that_a_draft_would_have_been_right_is_no_reason_to_ask_again_where_it_was_declined() -> None:
    alone, company = Pause(), Pause()
    for _ in range(8):
        alone.asked_in_vain(20, 1.0, 10.0)
        company.asked_in_vain(20, 1.0, 10.0, n_slots=4)
    assert alone.listens
    assert not company.listens
    assert alone.heard(40)
    assert not company.heard(40)
    assert company.lasts


def test_looks_around_become_rarer_and_rarer_still_in_company() -> None:
    def looks(alone: bool) -> list[int]:
        pause, waits = Pause(), []
        for _ in range(6):
            pause.asked_in_vain(0, 1.0, 10.0)
        while pause.may_go_on:
            pause.rested(pause.wait)
            pause.go_on(alone)
            waits.append(pause.wait)
        return waits

    assert looks(True) == sorted(looks(True))
    assert max(looks(True)) < max(looks(False)) == LONGEST
    assert len(looks(True)) == len(looks(False)), "in the end somebody is asked all the same"


def test_after_many_requests_in_vain_a_text_must_repeat_itself_clearly() -> None:
    assert Pause().hint(alone=True) < Pause(20).hint(alone=True)
    pause = Pause(20)
    pause.end()
    assert pause.hint(alone=True) == Pause().hint(alone=True), "a draft was of use"
    pause.asked_in_vain(0, 1.0, 10.0)
    pause.asked_in_vain(0, 1.0, 10.0)
    assert pause.hint(alone=False) == 2 * pause.hint(alone=True)
