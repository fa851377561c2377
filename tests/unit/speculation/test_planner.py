"""The planner spends time only where that is expected to win."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foretoken.speculation import adaptive
from foretoken.speculation.acceptance import Acceptance
from foretoken.speculation.adaptive import AdaptivePlanner
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.cost import BatchCost, StepCost
from foretoken.speculation.ledger import BackOff, Ledger
from foretoken.speculation.pause import LONGEST, Pause
from foretoken.speculation.planner import FixedPlanner, Proposal, Step, expected_tokens
from foretoken.speculation.sizing import Bet, MemoryCost, Sizing

CPU = {1: 10.0, 2: 17.0, 3: 24.1, 4: 20.9, 6: 30.3, 8: 44.9, 12: 69.6, 16: 69.3, 32: 109.0, 64: 228.0}
"""The shape measured on a CPU: 4 rows are cheaper than 3, 16 cheaper than 12."""
GPU = {1: 11.7, 2: 12.8, 4: 17.6, 8: 25.5, 9: 23.5, 16: 24.8, 32: 31.4, 64: 42.5}


def planner(table: dict[int, float] = CPU, memory: MemoryCost | None = None, **bounds: int) -> AdaptivePlanner:
    return AdaptivePlanner(StepCost(table), memory or MemoryCost(), **bounds)


def offer(p: float, n: int = 32, source: str = "a") -> Draft:
    return Draft(tuple(range(n)), (p,) * n, source)


def ask(seq: int = 0, n_max: int = 64, n_pending: int = 1, n_min: int | None = None) -> DraftAsk:
    """In a text that repeats itself: whoever waits does not wait longer for that."""
    return DraftAsk(seq, [1] * 64, n_max, n_pending, n_min)


def length(plan: dict[int, Draft], seq: int = 0) -> int:
    return len(plan.get(seq, NO_DRAFT))


def earn(p: AdaptivePlanner, seq: int = 0) -> None:
    """Give a slot credit and its drafters a good name, so that only expectations decide."""
    p._requests[seq].ledger.won_ms = 1e6
    for source in ("a", "b", "good", "poor", *"0123"):
        p.acceptance._trusted(seq, source).streak = 50


def test_a_likely_draft_is_verified_and_an_unlikely_one_is_not() -> None:
    p = planner()
    earn(p)
    assert length(p.plan([Proposal(ask(), [offer(0.99)])])) >= 3
    assert p.plan([Proposal(ask(), [offer(0.3)])]) == {}
    assert p.plan([Proposal(ask(), [])]) == {}


def test_sweet_spots_are_used() -> None:
    p = planner()
    earn(p)
    rows = {1 + length(p.plan([Proposal(ask(), [offer(x)])])) for x in (0.8, 0.9, 0.95, 0.99)}
    assert rows <= {4, 16, 32, 33}, "3 rows cost more than 4, and 12 more than 16"


def test_a_gpu_verifies_more_than_a_cpu() -> None:
    sizes = []
    for table in (CPU, GPU):
        p = planner(table)
        earn(p)
        sizes.append(length(p.plan([Proposal(ask(), [offer(0.9)])])))
    assert sizes[0] < sizes[1]


def test_replay_makes_doubtful_drafts_dearer() -> None:
    free, dear = planner(GPU), planner(GPU, MemoryCost(0.1, 60.0, replays=True))
    for p in (free, dear):
        earn(p)
    doubtful = [Proposal(ask(), [offer(0.55)])]
    assert length(free.plan(doubtful)) > length(dear.plan(doubtful))


def test_the_offer_that_wins_more_is_taken() -> None:
    p = planner()
    earn(p)
    plan = p.plan([Proposal(ask(), [offer(0.7, source="poor"), offer(0.98, source="good")])])
    assert plan[0].source == "good"


def test_bounds_of_the_request_and_the_settings() -> None:
    p = planner(n_max=5)
    earn(p)
    assert length(p.plan([Proposal(ask(), [offer(0.99)])])) <= 5
    assert length(p.plan([Proposal(ask(n_max=2), [offer(0.99)])])) <= 2
    assert p.plan([Proposal(ask(n_min=40), [offer(0.99)])]) == {}


def test_rows_go_to_the_likelier_slot() -> None:
    p = planner()
    for seq in (0, 1):
        earn(p, seq)
    plan = p.plan([Proposal(ask(0), [offer(0.6)]), Proposal(ask(1), [offer(0.98, source="b")])])
    assert length(plan, 1) > length(plan, 0)


def test_recurrent_slots_of_unequal_length_are_computed_in_passes() -> None:
    curve = StepCost(CPU)
    cost = BatchCost(curve, in_passes=True)
    assert cost((1, 1, 1, 1)) == curve(4)
    assert cost((4, 4, 4, 4)) == curve(16)
    assert cost((1, 4, 1, 1)) == pytest.approx(curve(4) + curve(3))
    assert BatchCost(curve, in_passes=False)((1, 4, 1, 1)) == curve(7)


def test_what_company_costs_is_learnt_from_steps_in_company() -> None:
    cost = BatchCost(StepCost(CPU), in_passes=True)
    for _ in range(100):
        cost.observe((1, 1), 0.5 * 17.0)
        cost.observe((4, 4), 2 * 44.9)
    assert cost((8, 8)) == pytest.approx(2 * StepCost(CPU)(16), rel=0.01)
    assert cost((1, 1)) == pytest.approx(0.5 * 17.0, rel=0.01), "a GPU repeats plain steps: they are another matter"
    assert cost((8,)) == 44.9, "a slot alone is as fast as before"


def test_a_draft_for_one_slot_must_pay_for_the_others_too() -> None:
    """Three slots wait for the longer batch: what pays for one slot alone does not pay for four."""
    alone, crowded = planner(CPU), planner(CPU)
    for p in (alone, crowded):
        for seq in range(4):
            earn(p, seq)
    fair = offer(0.8)
    assert length(alone.plan([Proposal(ask(0), [fair])])) > 0
    assert crowded.plan([Proposal(ask(seq), [fair] if seq == 0 else []) for seq in range(4)]) == {}


def test_it_learns_that_a_drafter_lies_without_verifying_it() -> None:
    p = planner()
    earn(p)
    boast = offer(0.95)
    assert p.plan([Proposal(ask(), [boast])])
    for _ in range(8):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {0: [boast]}))
    assert p.plan([Proposal(ask(), [boast])]) == {}


def test_it_comes_back_when_the_text_repeats_again() -> None:
    p = planner()
    boast = offer(0.95)
    for right in [False] * 8 + [True] * 12:
        emitted = (boast.tokens[0] if right else 999,)
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, emitted, 0)}, {0: [boast]}))
    assert p.plan([Proposal(ask(), [boast])])


@given(st.integers(0, 10_000))
def test_always_wrong_drafts_cost_little(seed: int) -> None:
    """Whatever a drafter claims, a request loses at most its stake and its share."""
    rng = random.Random(seed)
    p = planner(memory=MemoryCost(0.1, 0.1, replays=True))
    cost = StepCost(CPU)
    spent = 0.0
    for _ in range(400):
        boast = offer(rng.choice((0.6, 0.9, 0.99)), rng.randint(1, 40))
        plan = p.plan([Proposal(ask(), [boast])])
        n = length(plan)
        ms = cost(1 + n)
        spent += ms
        p.observe(Step({0: 1 + n}, ms, False, {0: Verdict(plan.get(0, NO_DRAFT), (999,), 0)}, {0: [boast]}))
    assert spent <= 400 * cost(1) * 1.01 + 4 * cost(4)


@given(st.lists(st.tuples(st.floats(0.05, 1), st.integers(1, 40)), min_size=1, max_size=4), st.integers(1, 20))
def test_never_more_than_offered_or_asked_for(offers: list[tuple[float, int]], n_max: int) -> None:
    p = planner()
    earn(p)
    made = [offer(conf, n, str(i)) for i, (conf, n) in enumerate(offers)]
    plan = p.plan([Proposal(ask(n_max=n_max), made)])
    for draft in plan.values():
        whole = made[int(draft.source)]
        assert len(draft) <= min(n_max, len(whole))
        assert draft.tokens == whole.tokens[: len(draft)]


def test_the_same_observations_give_the_same_plans() -> None:
    def plans() -> list[int]:
        rng = random.Random(5)
        p = planner()
        out = []
        for _ in range(200):
            made = offer(rng.random(), 20)
            plan = p.plan([Proposal(ask(), [made])])
            n = length(plan)
            right = rng.randint(0, n)
            tokens = (*made.tokens[:right], 999)
            verdict = Verdict(plan.get(0, NO_DRAFT), tokens, right)
            p.observe(Step({0: 1 + n}, 10.0 + n, False, {0: verdict}, {0: [made]}))
            out.append(n)
        return out

    assert plans() == plans()


def test_it_finds_out_that_it_was_calibrated_wrongly() -> None:
    """A machine that was busy during calibration: every width seems to cost as much as its rows one by one."""
    p = planner({width: 10.5 * width for width in (1, 2, 3, 4, 6, 8, 16, 32)})
    true = StepCost(GPU)
    sizes = []
    for _ in range(300):
        sure = offer(0.99, 16)
        plan = p.plan([Proposal(ask(), [sure])])
        n = length(plan)
        sizes.append(n)
        verdict = Verdict(plan.get(0, NO_DRAFT), (*sure.tokens[:n], 999 if n == 16 else sure.tokens[n]), n)
        p.observe(Step({0: 1 + n}, true(1 + n), False, {0: verdict}, {0: [sure]}))
    assert sizes[0] == 0
    assert sum(sizes[-50:]) / 50 >= 2


@given(st.integers(0, 1 << 30))
def test_whatever_the_clock_says_a_plan_is_made(seed: int) -> None:
    """Times that make no sense, of slots that come and go: no draft is too long, and nothing raises."""
    rng = random.Random(seed)
    p = planner(rng.choice((CPU, GPU)), MemoryCost(rng.random(), rng.random(), replays=rng.random() < 0.5))
    for _ in range(60):
        proposals = [
            Proposal(ask(seq, n_pending=rng.choice((1, 1, 1, 7, 24))), [offer(rng.choice((0.4, 0.9, 1.0)), 40, name)])
            for seq, name in enumerate("abcd"[: rng.randint(1, 4)])
        ]
        plan = p.plan(proposals)
        rows, verdicts = {}, {}
        for proposal in proposals:
            draft = plan.get(proposal.ask.seq, NO_DRAFT)
            assert len(draft) <= 40
            n = rng.randint(0, len(draft))
            rows[proposal.ask.seq] = proposal.ask.n_pending + len(draft)
            verdicts[proposal.ask.seq] = Verdict(draft, (*draft.tokens[:n], 999), n)
        offers = {proposal.ask.seq: proposal.offers for proposal in proposals}
        p.observe(Step(rows, rng.choice((0.0, 0.001, 10.0, 1e6)), rng.random() < 0.1, verdicts, offers))


def test_who_is_not_asked_is_judged_by_what_was_offered_before() -> None:
    p = planner()
    said = offer(0.9, 12)
    p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (0,), 0)}, {0: [said]}))
    for token in range(1, 12):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (token,), 0)}, {}))
    assert p.acceptance.streak(0, "a") == 12
    p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (5,), 0)}, {0: [said]}))
    assert p.acceptance.streak(0, "a") == 0


def test_the_ledger_books_gains_and_losses() -> None:
    p = planner(memory=MemoryCost(replays=True))
    good = offer(0.99, 3)
    p.observe(Step({0: 4}, 20.9, False, {0: Verdict(good, (0, 1, 2, 7), 3)}, {0: [good]}))
    won = p.saved_ms(0)
    assert won == pytest.approx(3 * 10.0 - 10.9, abs=0.5)
    p.observe(Step({0: 4}, 20.9, False, {0: Verdict(good, (9,), 0)}, {0: [good]}))
    assert p.saved_ms(0) < won - 10
    p.end(0)
    assert p.saved_ms(0) == 0


def test_steps_that_read_prompts_teach_nothing_about_cost() -> None:
    p = planner()
    p.observe(Step({0: 500}, 9999.0, True, {}, {}))
    assert p.cost((1,)) == pytest.approx(10.0)


def test_cost_follows_the_machine_and_ignores_hiccups() -> None:
    cost = StepCost(CPU)
    for _ in range(60):
        cost.observe(1, 15.0)
    assert cost(1) == pytest.approx(15.0, rel=0.05)
    assert cost(4) == pytest.approx(20.9 * 1.5, rel=0.1), "what slows one width slows all"
    cost.observe(1, 1000.0)
    assert cost(1) < 15.0 * 1.3, "one hiccup is no news"
    for _ in range(40):
        cost.observe(1, 150.0)
    assert cost(1) == pytest.approx(150.0, rel=0.1), "a machine that stays slow is"


@given(st.integers(1, 300))
def test_cost_is_defined_for_every_width(n: int) -> None:
    assert StepCost(CPU)(n) > 0


def test_one_hiccup_says_nothing_of_a_width() -> None:
    """What is believed to be dear is not taken again, so that nothing would correct it."""
    cost = StepCost(CPU)
    cost.observe(16, 2.5 * CPU[16])
    assert cost.table() == CPU
    cost.observe(16, 1.1 * CPU[16])
    cost.observe(16, 2.5 * CPU[16])
    assert cost(16) < 1.1 * CPU[16]
    cost.observe(16, 2.5 * CPU[16])
    assert cost(16) > 1.3 * CPU[16], "twice in a row it is so"
    company = BatchCost(StepCost(CPU), in_passes=True)
    before = company((8, 8))
    company.observe((8, 8), 2.9 * before)
    assert company((8, 8)) == before
    company.observe((8, 8), 2.9 * before)
    assert company((8, 8)) > 2 * before


def test_a_slow_moment_of_the_machine_says_little_of_the_width_it_met() -> None:
    cost = StepCost(CPU)
    for width in (16, 16, 16):
        cost.observe(width, 1.4 * CPU[width])
    assert cost(12) / cost(16) == pytest.approx(CPU[12] / CPU[16], rel=0.1)
    assert cost(1) > 1.15 * CPU[1]


def test_what_several_slots_are_slowed_down_by_slows_their_drafts_too() -> None:
    """Drafts that were dear in a slow minute are not taken again, so that nothing but plain steps could tell."""
    cost = BatchCost(StepCost(CPU), in_passes=False)
    plain, drafted = (1, 1, 1, 1), (4, 4, 4, 4)
    for _ in range(5):
        cost.observe(plain, 1.4 * CPU[4])
        cost.observe(drafted, 1.4 * CPU[16])
    for _ in range(20):
        cost.observe(plain, CPU[4])
    assert cost(drafted) == pytest.approx(CPU[16], rel=0.1)


def alternate(p: AdaptivePlanner, plain_ms: float, n: int) -> None:
    """Drafts that are right, each with a plain step behind it that takes so long."""
    right = offer(0.99, n=3)
    for _ in range(n):
        p.observe(Step({0: 4}, CPU[4], False, {0: Verdict(right, (*right.tokens, 9), 3)}, {}))
        p.observe(Step({0: 1}, plain_ms, False, {0: Verdict(NO_DRAFT, (1,), 0)}, {}))


def test_what_a_step_takes_beside_computing_does_not_grow_with_its_width() -> None:
    cost = StepCost({1: 3.0, 4: 8.0, 16: 16.0})
    for _ in range(100):
        cost.observe(1, 3.6, beside_ms=0.6)
    assert [cost(1), cost(4), cost(16)] == pytest.approx([3.6, 8.6, 16.6], rel=0.01)
    for _ in range(100):
        cost.observe(1, 6.6, beside_ms=0.6)
    assert [cost(1), cost(4), cost(16)] == pytest.approx([6.6, 16.6, 32.6], rel=0.01), (
        "a machine that is slower is so for all"
    )
    for _ in range(100):
        cost.observe(1, 0.7, beside_ms=0.69)
    assert 0 < cost(1) < cost(4) < cost(16), "whatever clocks say"


def test_plain_steps_behind_drafts_teach_what_plain_steps_take_unless_they_always_take_longer() -> None:
    p = planner()
    alternate(p, 0.6 * CPU[1], 40)
    assert p.cost((1,)) < 0.7 * CPU[1], "a machine that has become faster"
    p = planner()
    alternate(p, 3.0 * CPU[1], 1)
    plain = {0: Verdict(NO_DRAFT, (1,), 0)}
    for _ in range(30):
        p.observe(Step({0: 1}, CPU[1], False, plain, {}))
        alternate(p, 3.0 * CPU[1], 1)
    assert p.cost((1,)) == pytest.approx(CPU[1], rel=0.1), "a graph that must be recorded anew"


def test_what_is_always_reckoned_with_is_less_where_much_is_known() -> None:
    acceptance, sure = Acceptance(), offer(0.97, n=4)
    before = acceptance.risk(0, "a", 0.97)
    for request in range(40):
        acceptance.learn(request, sure, sure.tokens)
        acceptance.forget(request)
    known = acceptance.risk(0, "a", 0.97)
    assert 0 < known < before / 2
    assert known < acceptance.risk(0, "a", 0.97, n_slots=2) < before, "where two would wait for a mistake"
    assert acceptance.risk(0, "a", 0.97, n_slots=16) == before
    for request in range(6):
        acceptance.learn(request, sure, (999,))
        acceptance.forget(request)
    assert acceptance.risk(0, "a", 0.97) > 2 * known


def test_a_cost_table_needs_width_one() -> None:
    with pytest.raises(ValueError, match="width 1"):
        StepCost({2: 1.0})


def test_acceptance_corrects_what_drafters_claim() -> None:
    acceptance = Acceptance()
    shy = Draft((5,), (0.5,), "shy")
    for _ in range(60):
        acceptance.learn(0, shy, (5,))
    assert acceptance.reach(0, shy)[0] > 0.85
    assert acceptance.reach(1, Draft((5,), (0.5,), "unknown"))[0] == pytest.approx(0.5**4)


def test_a_run_of_right_tokens_is_believed_more() -> None:
    acceptance = Acceptance()
    bold = Draft((5,), (0.9,), "bold")
    seen = [acceptance.reach(0, bold)[0]]
    for _ in range(14):
        acceptance.learn(0, bold, (5,))
        seen.append(acceptance.reach(0, bold)[0])
    assert seen[0] < 0.7
    assert seen[-1] > 0.9
    acceptance.learn(0, bold, (7,))
    assert acceptance.reach(0, bold)[0] < 0.9


def test_who_doubts_a_text_too_much_is_believed_more_in_it_and_no_more_elsewhere() -> None:
    acceptance = Acceptance({"model"})
    shy = Draft((1, 2, 3, 4), (0.8, 0.7, 0.9, 0.75), "model")
    stated = acceptance.reach(0, shy)
    assert stated == pytest.approx([0.8, 0.56, 0.504, 0.378])
    for _ in range(5):
        acceptance.learn(0, shy, shy.tokens)
    known = acceptance.reach(0, shy)
    assert known[-1] > 0.75, "a text that it knows by heart"
    elsewhere = acceptance.reach(1, shy)
    assert stated[-1] < elsewhere[-1] < known[-1]
    for _ in range(6):
        acceptance.learn(0, shy, (9,))
    assert acceptance.reach(0, shy)[-1] < elsewhere[-1], "and then the text changes"


def test_who_is_wrong_more_often_than_it_says_is_believed_less() -> None:
    acceptance = Acceptance({"model"})
    bold = Draft((1, 2, 3, 4), (0.95,) * 4, "model")
    for _ in range(4):
        acceptance.learn(0, bold, (1, 9))
    assert acceptance.reach(0, bold)[-1] < 0.6 * 0.95**4


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=80), st.floats(0, 1))
def test_what_is_believed_stays_a_probability_and_falls_along_a_draft(
    judged: list[tuple[float, bool]], stated: float
) -> None:
    for acceptance in (Acceptance(), Acceptance({"model"})):
        for p, right in judged:
            acceptance.learn(0, Draft((1,), (p,), "model"), (1 if right else 2,))
        reach = acceptance.reach(0, Draft((1,) * 6, (stated,) * 6, "model"))
        assert all(0 < p <= 1 for p in reach)
        assert reach == sorted(reach, reverse=True)
        assert 0 <= acceptance.accuracy(0, "model", 0.98) <= 1


def test_a_drafter_that_loses_rests_longer_each_time() -> None:
    rest = BackOff()
    lengths = []
    for _ in range(3):
        while not rest.rest:
            rest.enter(-20.0, 10.0)
        n = 0
        while rest.resting():
            n += 1
        lengths.append(n)
    assert lengths == [8, 16, 32]


def test_stakes_grow_with_what_was_earned() -> None:
    ledger = Ledger()
    assert ledger.stake_ms(10) == 3.5
    ledger.enter("a", 100)
    ledger.elapsed_ms += 50
    assert ledger.stake_ms(10) == pytest.approx(3.5 + 50 + 0.5)
    ledger.enter("a", -200)
    assert ledger.stake_ms(10) < 0


def test_the_fixed_planner_takes_the_most_promising_offer_within_its_bounds() -> None:
    fixed = FixedPlanner(n_min=2, n_max=4, p_min=0.5)
    plan = fixed.plan([Proposal(ask(), [offer(0.4), offer(0.9, 1), offer(0.8, 9, "best")])])
    assert plan[0] == offer(0.8, 9, "best").cut(4)
    assert expected_tokens(Draft((1, 2), (0.5, 0.5))) == pytest.approx(0.75)


def asks(p: AdaptivePlanner, step_ms: float, n: int, said: int) -> int:
    """So many steps of which no draft is verified; returns in how many of them drafters were asked."""
    n_asked = 0
    for _ in range(n):
        asked = bool(p.worth_asking([ask()]))
        n_asked += asked
        spent, offers = ({"a": 0.1}, [Draft((7,) * 40, (0.1,) * 40, "a")]) if asked else ({}, [])
        verdicts = {0: Verdict(NO_DRAFT, (said,), 0)}
        p.observe(Step({0: 1}, step_ms, False, verdicts, {0: offers}, {0: spent}, {0} if asked else ()))
    return n_asked


@pytest.mark.parametrize(("step_ms", "fewest", "most"), [(0.5, 9, 11), (1000.0, 100, 100)])
def test_drafters_that_are_never_right_are_asked_less_where_asking_costs(
    step_ms: float, fewest: int, most: int
) -> None:
    """Beside a short step asking is dear, beside a long one it is nothing."""
    assert fewest <= asks(planner(), step_ms, 100, said=8) <= most
    assert FixedPlanner().worth_asking([ask()]) == [ask()], "who chose a fixed plan wants every draft"


def test_whoever_turns_out_right_is_asked_before_the_time() -> None:
    p = planner()
    asks(p, 0.5, 110, said=8)
    assert p.worth_asking([ask()]) == (), "it waits"
    waiting = 0
    while not p.worth_asking([ask()]):
        asks(p, 0.5, 1, said=8)
    asks(p, 0.5, 1, said=7)
    while not p.worth_asking([ask()]):
        waiting += asks(p, 0.5, 1, said=7) == 0
    assert waiting == 4, "five right tokens in a row are a reason to ask again"


def test_a_draft_of_use_ends_the_waiting() -> None:
    p = planner()
    asks(p, 0.5, 60, said=8)
    used = offer(0.9, 3)
    p.observe(Step({0: 4}, 1.0, False, {0: Verdict(used, (*used.tokens, 7), 3)}, {0: [used]}, {0: {"a": 0.03}}))
    assert p.worth_asking([ask()]) == [ask()]


@pytest.mark.parametrize("step_ms", [3.0, 1000.0])
def test_requests_without_use_make_the_next_ones_less_patient(step_ms: float) -> None:
    p = planner()
    asked = []
    for _ in range(8):
        asked.append(asks(p, step_ms, 13, said=8))
        p.end(0)
    if step_ms == 1000.0:
        assert asked == [13] * 8, "beside a long step asking is nothing"
        return
    assert asked == sorted(asked, reverse=True)
    assert asked[0] > asked[-1] >= 3, "an answer that can be copied is still found out soon"
    used = offer(0.9, 3)
    p.observe(Step({0: 4}, step_ms, False, {0: Verdict(used, (*used.tokens, 7), 3)}, {0: [used]}, {0: {"a": 0.03}}))
    p.end(0)
    assert asks(p, step_ms, 13, said=8) == asked[0], "one draft of use, and it is as before"


def test_slots_are_asked_together() -> None:
    """Their drafts are cheaper in one step than one after the other."""
    p = planner(GPU)
    asks(p, 0.5, 110, said=8)
    assert p.worth_asking([ask(0)]) == ()
    assert p.worth_asking([ask(0), ask(1)]) == [ask(1)], "nothing of the first was right lately"
    while not p.worth_asking([ask()]):
        asks(p, 0.5, 1, said=8)
    asks(p, 0.5, 1, said=7)
    assert p.worth_asking([ask(0)]) == ()
    assert p.worth_asking([ask(0), ask(1)]) == [ask(0), ask(1)]


@given(st.integers(0, 1000), st.integers(0, LONGEST), st.integers(0, 1000), st.integers(0, LONGEST))
def test_waits_end_where_shorter_ones_end_too(step: int, wait: int, other_step: int, other_wait: int) -> None:
    def ends(step: int, wait: int) -> tuple[int, int]:
        pause = Pause()
        pause.wait = wait
        pause.align(step)
        period = 1 << wait.bit_length()
        assert period // 2 - 1 <= pause.wait < 3 * period // 2 if wait else pause.wait == 0
        return step + pause.wait + 1, period

    (_, shorter), (end, longer) = sorted((ends(step, wait), ends(other_step, other_wait)), key=lambda found: found[1])
    assert end % longer == 0
    assert end % shorter == 0


def test_slots_that_wait_come_to_wait_for_each_other() -> None:
    p = planner()
    n_asked = n_steps = 0
    for n in range(400):
        begun = range(3 if n > 20 else 1)
        asked = {one.seq for one in p.worth_asking([ask(seq) for seq in begun])}
        n_asked, n_steps = n_asked + len(asked), n_steps + bool(asked)
        verdicts = {seq: Verdict(NO_DRAFT, (999,), 0) for seq in begun}
        spent = {seq: {"a": 0.3} for seq in asked}
        p.observe(Step(dict.fromkeys(begun, 1), 30.0, False, verdicts, {}, spent, asked))
    assert n_asked > 1.8 * n_steps, "the first slot began long before the others"


@given(st.lists(st.floats(5.0, 15.0), min_size=20, max_size=120), st.floats(8.0, 14.0))
def test_what_is_learnt_late_is_the_same(times: list[float], constant: float) -> None:
    """Of several steps together the middle one teaches as much as all of them: where they differ, not to the letter."""

    def asked_at(behind: int, times: list[float]) -> tuple[list[int], float, float]:
        p = planner()
        found = []
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(adaptive, "_BEHIND", behind)
            for n, ms in enumerate(times):
                asked = bool(p.worth_asking([ask()]))
                found += [n] * asked
                spent = {0: {"a": 0.3}} if asked else {}
                p.observe(Step({0: 1}, ms, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {}, spent, {0} if asked else ()))
            ledger = p._requests[0].ledger
            p.end(0)
        return found, p.cost.curve(1), ledger.elapsed_ms

    for series in (times, [constant] * len(times)):
        late, early = asked_at(31, series), asked_at(1, series)
        assert late[0] == early[0]
        assert late[2] == pytest.approx(early[2])
        assert min(10.0, *series) - 0.3 <= late[1] <= max(10.0, *series), "asking took 0.3 of the steps with asks"
    assert late[1] == pytest.approx(early[1])


def test_steps_that_are_learnt_from_together_weigh_as_much_as_one_by_one() -> None:
    together, one_by_one = StepCost({1: 10.0, 4: 20.0}), StepCost({1: 10.0, 4: 20.0})
    for _ in range(3):
        together.observe(1, 12.0, 1.0, n_steps=7)
        for _ in range(7):
            one_by_one.observe(1, 12.0, 1.0)
        assert together.table() == pytest.approx(one_by_one.table(), rel=0.02)


@given(
    st.lists(
        st.tuples(st.floats(0.1, 0.999), st.integers(1, 40), st.sampled_from([1.05, 1.4])), min_size=2, max_size=5
    ),
    st.integers(0, 2),
    st.booleans(),
)
def test_lengths_that_are_not_looked_at_would_not_have_been_chosen(
    offers: list[tuple[float, int, float]], n_waiting: int, replays: bool
) -> None:
    rising = {1: 10.0, 2: 14.0, 4: 20.0, 8: 30.0, 16: 50.0, 32: 90.0, 64: 170.0}

    def chosen() -> list[int]:
        sizing = Sizing(BatchCost(StepCost(rising), replays), MemoryCost(0.1, 0.1, replays))
        bets = [
            Bet(seq, offer(p, n), [p**i for i in range(1, n + 1)], 1, 0, margin, 1e6, 0.0, 0.0, 0)
            for seq, (p, n, margin) in enumerate(offers)
        ]
        sizing.together(bets, [1] * n_waiting)
        return [bet.n for bet in bets]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Sizing, "_hoped", lambda *_: float("inf"))
        all_looked_at = chosen()
    assert chosen() == all_looked_at


def certain_bet(n: int, seq: int = 0, margin: float = 1.05) -> Bet:
    return Bet(seq, offer(1.0, n), [1.0] * n, 1, 0, margin, 1e6, 0.0, 0.0, 0)


def test_where_asking_takes_long_drafts_are_longer() -> None:
    """Of equally fast ones the longer: every draft more is one more that is asked for."""
    sizing = Sizing(BatchCost(StepCost({1: 2.0, 4: 4.0, 8: 8.1, 16: 16.4, 32: 33.0}), False), MemoryCost())

    def length(ask_ms: float) -> int:
        sizing.ask_ms = ask_ms
        alone, first, second = certain_bet(31), certain_bet(31), certain_bet(31, seq=1)
        sizing.alone(alone)
        sizing.together([first, second], [])
        assert first.n == second.n
        return alone.n

    assert length(0.0) == 3
    assert length(0.4) == 31
    assert length(31.0) == 0, "and where it takes more than they win there are none"


@given(
    st.lists(st.tuples(st.floats(0.5, 1.0), st.integers(1, 40)), min_size=1, max_size=4),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from([CPU, GPU]),
)
def test_nobody_waits_long_for_the_drafts_of_others(
    offers: list[tuple[float, int]], n_waiting: int, in_passes: bool, table: dict[int, float]
) -> None:
    cost = BatchCost(StepCost(table), in_passes)
    bets = [certain_bet(n, seq) for seq, (_, n) in enumerate(offers)]
    for bet, (p, n) in zip(bets, offers, strict=True):
        bet.reach[:] = [p**i for i in range(1, n + 1)]
        bet.__post_init__()
    Sizing(cost, MemoryCost()).together(bets, [1] * n_waiting)
    rows = [1] * n_waiting + [1 + bet.n for bet in bets]
    if 1 in rows:
        assert cost(rows) <= 1.5 * cost([1] * len(rows))


def test_who_is_certain_is_believed_from_the_first_token_until_it_was_wrong() -> None:
    p = planner()
    assert length(p.plan([Proposal(ask(), [offer(1.0, n=3)])])) == 3
    for _ in range(8):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {0: [offer(1.0, n=3)]}))
    assert p.plan([Proposal(ask(), [offer(1.0, n=3)])]) == {}


def spend(p: AdaptivePlanner, won: bool, n: int, seq: int = 0) -> int:
    """So many plain steps in which a drafter whose guesses take half a step is asked, if it is; returns how often."""
    n_asked = 0
    for _ in range(n):
        asked = bool(p.worth_asking([ask(seq)])) and not p.too_dear(ask(seq), "slow", [])
        n_asked += asked
        draft = offer(0.9, 3, "slow") if asked else NO_DRAFT
        verdict = Verdict(draft, (*draft.tokens, 7), len(draft)) if won else Verdict(NO_DRAFT, (999,), 0)
        spent = {"slow": 5.0} if asked else {}
        ms = (20.9 if won and asked else 10.0) + sum(spent.values())
        rows = {seq: 1 + len(verdict.draft)}
        offers = {seq: [draft] if asked else []}
        p.observe(Step(rows, ms, False, {seq: verdict}, offers, {seq: spent}, {seq} if asked else ()))
    p.end(seq)
    return n_asked


def test_a_slow_drafter_that_wins_nothing_costs_a_request_little() -> None:
    p = planner()
    first = spend(p, won=False, n=100)
    assert first <= 8, "three steps and one in a hundred"
    assert spend(p, won=False, n=100) <= 3, "the next request knows better"
    assert spend(planner(), won=True, n=100) == 100


def test_a_slow_drafter_gets_another_chance() -> None:
    p = planner()
    spend(p, won=False, n=100)
    counts = [spend(p, won=True, n=100) for _ in range(10)]
    assert 0 in counts, "not at once"
    assert counts[-1] == 100, counts


def test_a_long_first_reading_does_not_keep_a_drafter_from_being_asked_again() -> None:
    p = planner()
    asked = []
    for n in range(12):
        asked.append(not p.too_dear(ask(), "slow", []))
        spent = {"slow": 40.0 if n == 0 else 2.0} if asked[-1] else {}
        step = Step({0: 1}, 10.0 + sum(spent.values()), False, {0: Verdict(NO_DRAFT, (999,), 0)}, {0: []}, {0: spent})
        p.observe(step)
    assert asked[:4] == [True] * 4, "what is left to spend does not depend on what the reading took"
    assert not asked[-1], "but it is little"


@pytest.mark.parametrize("n", [10, 30, 300])
def test_chances_cost_no_more_than_their_share_of_the_time(n: int) -> None:
    p = planner()
    n_asked = [spend(p, won=False, n=n) for _ in range(20_000 // n)]
    lost_ms, spent_ms = 5.0 * sum(n_asked), 10.0 * n * len(n_asked)
    assert lost_ms <= 0.012 * spent_ms + 5.0 * n_asked[0], "the first request knew nothing"
    assert any(n_asked[len(n_asked) // 2 :]), "but they do not end"


def test_where_others_would_wait_a_drafter_that_lost_gets_no_second_chance() -> None:
    p = planner()
    p.worth_asking([ask(1)])
    assert not p.too_dear(ask(0), "slow", [])
    spend(p, won=False, n=30)
    p.worth_asking([ask(1)])
    assert not any(spend(p, won=False, n=30) for _ in range(10))


def test_who_saved_much_once_may_disappoint_more_often() -> None:
    p = planner()
    spend(p, won=True, n=100)
    tries = [bool(spend(p, won=False, n=30)) for _ in range(5)]
    assert tries == [True, True, True, False, False]


def remembered(text: Sequence[int], n: int, share: float) -> Draft:
    """What a drafter would have guessed of the last tokens of a text, this share of them right."""
    said = text[len(text) - n :]
    right = [int((i + 1) * share) > int(i * share) for i in range(n)]
    return Draft(tuple(t if ok else -1 for t, ok in zip(said, right, strict=True)), (0.9,) * n, "slow")


def prove(p: AdaptivePlanner, share: float, n: int) -> tuple[int, int]:
    """So many steps beside a drafter that can look back in 15 ms; how often it did, and how often it was asked."""
    p.demand_proof("slow")
    n_proofs = n_asked = 0
    for _ in range(n):
        spent = 0.0
        if n_tokens := p.doubts(ask(), "slow", []):
            n_proofs, spent = n_proofs + 1, 15.0
            text = list(range(40))
            p.proved(replace(ask(), tokens=text), "slow", remembered(text, n_tokens, share), spent)
        asked = not p.too_dear(ask(), "slow", [])
        n_asked += asked
        draft = offer(0.99, 3, "slow") if asked else NO_DRAFT
        n_right = 3 if share == 1.0 and asked else 0
        verdict = Verdict(draft, (*draft.tokens[:n_right], 7), n_right)
        spent += 2.0 * asked
        drafting = {0: {"slow": spent}} if spent else {}
        ms = (20.9 if asked else 10.0) + spent
        p.observe(Step({0: 1 + len(draft)}, ms, False, {0: verdict}, {0: [draft] if draft else []}, drafting))
    p.end(0)
    return n_proofs, n_asked


def test_who_can_look_back_is_asked_once_it_would_have_been_right() -> None:
    p = planner()
    n_proofs, n_asked = prove(p, share=1.0, n=100)
    assert n_proofs == 1
    assert 80 <= n_asked < 90, "after as many plain steps as it had to look back on"
    assert prove(p, share=1.0, n=100) == (0, 100), "it has proved right"


def test_who_would_have_been_wrong_is_not_asked() -> None:
    assert prove(planner(), share=0.4, n=100) == (1, 0)


def test_what_proof_is_enough_depends_on_what_drafts_cost() -> None:
    assert prove(planner(CPU), share=0.7, n=100)[1] == 0
    assert prove(planner(GPU), share=0.7, n=100)[1] > 0


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_looking_back_in_vain_takes_its_share_of_the_time(n: int) -> None:
    p = planner()
    n_proofs = [prove(p, share=0.4, n=n)[0] for _ in range(20_000 // n)]
    assert sum(n_proofs) * 15.0 <= 0.01 / 3 * 200_000 + 45.0, "the first is free, the next two are cheap"
    assert sum(n_proofs) * 15.0 >= 0.002 * 200_000, "but it goes on: the next text may be another one"


def test_what_it_would_have_guessed_teaches_how_far_it_can_be_believed() -> None:
    p, text = planner(GPU), list(range(40))
    begun = p.appetite(ask(), "slow"), p.acceptance.first(0, offer(0.9, source="slow"))
    p.proved(replace(ask(), tokens=text), "slow", remembered(text, 16, 1.0), 3.0)
    assert p.appetite(ask(), "slow") > begun[0]
    assert p.acceptance.first(0, offer(0.9, source="slow")) > begun[1]
    p.proved(replace(ask(), tokens=text), "slow", remembered(text, 16, 0.2), 3.0)
    assert p.acceptance.first(0, offer(0.9, source="slow")) < begun[1]


def test_a_proof_that_is_due_is_not_put_off_because_the_others_have_nothing_to_say() -> None:
    def due(n_steps: int, *provable: str) -> bool:
        p = planner()
        for source in provable:
            p.demand_proof(source)
        for _ in range(n_steps):
            asked = bool(p.worth_asking([ask()]))
            happened: tuple = ({0: []}, {0: {"a": 0.5}}, {0}) if asked else ({}, {}, set())
            p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, *happened))
        assert p._requests[0].pause.lasts
        return bool(p.worth_asking([ask()]))

    assert due(16, "slow")
    assert not due(15, "slow"), "there is nothing to look back on yet"
    assert not due(16)


def test_every_proof_that_fails_puts_off_the_next_one_of_a_request_for_longer() -> None:
    p = planner()
    p.demand_proof("slow")
    p._prices._account("slow").purse_ms = 1e6
    proofs, text = [], list(range(40))
    for n in range(250):
        if n_tokens := p.doubts(ask(), "slow", []):
            proofs.append(n)
            p.proved(replace(ask(), tokens=text), "slow", remembered(text, n_tokens, 0.4), 0.1)
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {}))
    assert proofs == [16, 16 + 32, 16 + 32 + 64, 16 + 32 + 64 + 128]
    p.end(0)
    p._requests[0].n_said = 16
    assert p.doubts(ask(), "slow", []), "the next request is another text"


@pytest.mark.parametrize("provable", [False, True])
def test_what_was_saved_before_pays_for_vain_asks_only_so_far(provable: bool) -> None:
    """Also where a proof is due that nobody lets it give, as in a request that allows only others."""
    p = planner()
    p.demand_proof("slow")
    p._prices._account("slow").saved_share, p._prices._account("slow").purse_ms = 5.0, 1e6 if provable else -1e6
    p._prices._account("slow").proof_ms = 1.0
    n_asked = 0
    for _ in range(300):
        asked = bool(p.worth_asking([ask()]))
        n_asked += asked
        happened: tuple = ({0: []}, {0: {"a": 0.5}}, {0}) if asked else ({}, {}, set())
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, *happened))
    assert n_asked <= 2 + 300 * 10.0 * 0.02 / 0.5 + provable * 300 / 16


def test_nobody_else_is_asked_where_one_has_been_right_for_long_and_offers_much() -> None:
    p, long = planner(), offer(0.9, 40, "copy")
    assert not p.settled(ask(), [])
    assert not p.settled(ask(), [long])
    p.acceptance.learn(0, long, long.tokens)
    assert p.settled(ask(), [offer(0.9, 3, "other"), long])
    assert not p.settled(ask(), [long.cut(20)])
    assert p.settled(ask(n_max=20), [long.cut(20)]), "no more could be verified"
    assert not p.settled(ask(1), [long]), "another text"
    p.acceptance.learn(0, long, (999,))
    assert not p.settled(ask(), [long])


def test_who_is_right_all_the_time_is_asked_for_more() -> None:
    p = planner(GPU)
    p.believe("slow")
    p._requests[0].ledger.won_ms = 1e6
    p.acceptance._trusted(0, "slow").streak = 50
    begun = p.appetite(ask(), "slow")
    for _ in range(10):
        p.acceptance.learn(0, offer(0.9, 8, "slow"), tuple(range(8)))
    assert p.appetite(ask(), "slow") > begun


def test_who_lost_too_much_may_win_trust_again_by_what_it_would_have_guessed_since() -> None:
    p = planner()
    spend(p, won=True, n=100)
    p.demand_proof("slow")
    steps = iter(range(1000))
    while not p.too_dear(ask(), "slow", []):
        assert next(steps) < 100
        draft = offer(0.99, 3, "slow")
        drafting = {0: {"slow": 6.0}}
        p.observe(Step({0: 4}, 26.9, False, {0: Verdict(draft, (999,), 0)}, {0: [draft]}, drafting))
    plain = Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {})
    for _ in range(15):
        p.observe(plain)
        assert not p.doubts(ask(), "slow", []), "what was said before it was doubted proves nothing"
    p.observe(plain)
    n, text = p.doubts(ask(), "slow", []), list(range(40))
    assert n == 16
    p.proved(replace(ask(), tokens=text), "slow", remembered(text, n, 1.0), 1.0)
    assert not p.too_dear(ask(), "slow", [])


def test_nobody_looks_back_where_others_would_wait_or_have_good_offers() -> None:
    p = planner()
    p.demand_proof("slow")
    p.worth_asking([ask()])
    for _ in range(20):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {}))
    assert p.doubts(ask(), "slow", [])
    assert not p.doubts(ask(), "slow", [offer(1.0)])
    p.worth_asking([ask(1)])
    assert not p.doubts(ask(), "slow", [])


def test_one_that_takes_long_is_not_read_in_where_a_copy_stumbles() -> None:
    p = planner()
    earn(p)
    assert p.too_dear(ask(), "slow", [])
    for _ in range(3):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {}, {0: {"a": 0.03}}, {0}))
    assert not p.too_dear(ask(), "slow", []), "the others have nothing to say here"


def test_whose_confidences_are_probabilities_is_taken_at_its_word() -> None:
    p = planner()
    assert p.acceptance.first(0, offer(0.8)) < 0.5
    p.believe("a")
    assert p.acceptance.first(0, offer(0.8)) == pytest.approx(0.8)
    for _ in range(30):
        p.observe(Step({0: 1}, 10.0, False, {0: Verdict(NO_DRAFT, (999,), 0)}, {0: [offer(0.8)]}))
    assert p.acceptance.first(0, offer(0.8)) < 0.2, "until it turns out wrong"


def test_who_takes_long_is_asked_for_no_more_than_would_be_verified() -> None:
    p = planner(GPU)
    begun = p.appetite(ask(), "slow")
    assert begun < 16, "an unknown drafter's first tokens are few"
    p._requests[0].ledger.won_ms = 200.0
    assert p.appetite(ask(), "slow") > begun, "what was won may be risked"
    p._requests[0].ledger.won_ms = -50.0
    assert 0 < p.appetite(ask(), "slow") <= begun, "there is always a way back"


def test_who_takes_long_is_asked_for_as_many_as_make_the_fastest_steps() -> None:
    flat_then_steep = {1: 10.0, 4: 11.0, 8: 12.0, 16: 14.0, 32: 60.0, 64: 120.0}
    p = planner(flat_then_steep)
    p._requests[0].ledger.won_ms = 1e6
    assert p.appetite(ask(), "slow") == 15


def test_a_drafter_may_lose_what_it_has_put_by_whatever_others_lost() -> None:
    """Without that a wrong copy at the beginning would silence everybody for the rest of a text."""

    def wagered(n_good_requests: int) -> int:
        p = planner(GPU)
        p.believe("slow")
        for _ in range(n_good_requests):
            spend(p, won=True, n=100)
        p._requests[0].ledger.enter("copy", -30.0)
        return length(p.plan([Proposal(ask(), [offer(0.97, 16, "slow")])]))

    assert wagered(0) <= 3
    assert wagered(2) >= 8


def test_who_takes_long_is_not_asked_where_another_offer_is_good() -> None:
    p = planner()
    earn(p)
    p._requests[0].ledger.enter("slow", 1.0)
    assert p.too_dear(ask(), "slow", [offer(0.99)])
    assert not p.too_dear(ask(), "slow", [offer(0.4)])
