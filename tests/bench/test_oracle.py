"""The oracle: it drafts what was recorded, in the cheapest steps."""

from __future__ import annotations

from foretoken.bench.oracle import MAX_WIDTH, OracleDrafter, OraclePlanner
from foretoken.speculation.base import Draft, DraftAsk, Verdict
from foretoken.speculation.cost import StepCost
from foretoken.speculation.planner import Proposal

SWEET_AT_4 = StepCost({1: 10.0, 2: 17.0, 3: 24.0, 4: 20.0, 8: 45.0, 64: 400.0})


def total(planner: OraclePlanner, n_tokens: int) -> float:
    cost = 0.0
    while n_tokens:
        width = planner.width(1, n_tokens)
        cost += SWEET_AT_4(width)
        n_tokens -= width
    return cost


def test_the_drafter_knows_what_comes() -> None:
    oracle = OracleDrafter()
    oracle.recordings["me"] = (5, 6, 7, 8)
    oracle.begin(0, [1, 2], "me")
    oracle.begin(1, [1, 2], "somebody else")
    drafts = oracle.draft([DraftAsk(0, [1, 2, 5], 2), DraftAsk(1, [1, 2, 5], 2)])
    assert [draft.tokens for draft in drafts] == [(6, 7), ()]


def test_the_drafter_is_silent_once_the_model_says_something_else() -> None:
    oracle = OracleDrafter()
    oracle.recordings["me"] = (5, 6, 7, 8)
    oracle.begin(0, [1], "me")
    (draft,) = oracle.draft([DraftAsk(0, [1, 5], 3)])
    oracle.accept(0, Verdict(draft, (6, 9), 1))
    assert oracle.draft([DraftAsk(0, [1, 5, 6, 9], 3)])[0].tokens == ()
    oracle.end(0)


def test_the_planner_takes_the_sweet_spots() -> None:
    planner = OraclePlanner(SWEET_AT_4, 0.0, 128)
    assert planner.width(1, 400) == 4
    assert total(planner, 8) == 40.0
    assert planner.width(1, 1) == 1
    assert planner.width(1, 2) == 2


def test_no_way_to_cut_the_text_is_cheaper() -> None:
    planner = OraclePlanner(SWEET_AT_4, 0.0, 128)
    for n in range(1, 40):
        alternatives = [SWEET_AT_4(w) + total(planner, n - w) for w in range(1, min(n, MAX_WIDTH) + 1)]
        assert total(planner, n) <= min(alternatives) + 1e-9


def test_protecting_costs_and_rows_are_limited() -> None:
    assert OraclePlanner(SWEET_AT_4, 100.0, 128).width(1, 4) == 1
    assert OraclePlanner(StepCost({1: 10.0, 256: 11.0}), 0.0, 128).width(4, 96) == 128 // 4
    assert OraclePlanner(StepCost({1: 10.0, 64: 11.0}), 0.0, 2048).width(1, 640) == MAX_WIDTH


def test_plans_are_cuts_of_the_offers() -> None:
    planner = OraclePlanner(SWEET_AT_4, 0.0, 128)
    offer = Draft(tuple(range(20)), (1.0,) * 20, "oracle")
    plan = planner.plan([Proposal(DraftAsk(3, [1], 20), [offer]), Proposal(DraftAsk(4, [1], 20), [])])
    assert list(plan) == [3]
    assert len(plan[3]) == 3
