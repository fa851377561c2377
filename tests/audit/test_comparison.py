"""Where two answers part, and how that is said."""

from __future__ import annotations

from foretoken.audit.auditor import Outcome
from foretoken.audit.comparison import Divergence, compare_texts, first_difference
from foretoken.audit.receipt import summary
from foretoken.audit.variations import N_PARALLEL, drafters, shortened, variations
from foretoken.audit.watch import Watch
from foretoken.bench import workloads
from foretoken.cli.audit import lines
from foretoken.config import SpeculationConfig
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.planner import FixedPlanner, Proposal, Step

DIVERGED = Divergence("edit/rename", 7, " foo", None, 5, None, 9, 0.0123)


def test_the_first_difference() -> None:
    assert first_difference([1, 2, 3], [1, 2, 3]) is None
    assert first_difference([1, 2, 3], [1, 9, 3]) == 1
    assert first_difference([1, 2, 3], [1, 2]) == 2
    assert first_difference([], [1]) == 0
    assert first_difference([], []) is None


def test_texts() -> None:
    assert compare_texts("c", "same", "same") is None
    found = compare_texts("c", "the cat sat", "the cow")
    assert found == Divergence("c", 5, "at sat", "ow")
    assert str(found) == "at letter 5: 'at sat' became 'ow'"


def test_a_divergence_says_all_that_is_known() -> None:
    assert str(DIVERGED) == "at token 7: ' foo' became the end, batch of 9 rows, margin 0.0123"


def test_lines_like_the_seeds_script() -> None:
    outcome = Outcome("auto", (("trio/C", 10), ("trio/Java", 12), ("edit/rename", 9)), 5, 4, 1, (DIVERGED,))
    assert lines(outcome) == ["trio: MATCH (2 answers, 22 tokens)", f"edit/rename: DIVERGED {DIVERGED}"]


def test_a_summary_adds_up() -> None:
    good = Outcome("plain", (("trio/C", 10),), 0, 0, 0, ())
    bad = Outcome("auto", (("trio/C", 10), ("edit/rename", 9)), 5, 4, 1, (DIVERGED,))
    assert summary([good])["verdict"] == "MATCH"
    found = summary([good, bad])
    assert found["verdict"] == "DIVERGED"
    assert found["counts"] == {
        "requests": 3, "tokens": 29, "drafted": 5, "accepted": 4, "rewinds": 1, "diverged": 1,
    }  # fmt: skip
    assert found["variations"][1]["divergences"][0]["margin"] == 0.0123


def test_every_way_is_there_once_and_slots_come_together() -> None:
    ways = list(variations(("copy", "suffix"), ("copy", "suffix", "ngram-mod"), stress=True))
    names = [str(way) for way in ways]
    assert len(set(names)) == len(names)
    slots = [way.n_slots for way in ways]
    assert slots == sorted(slots)
    assert {*slots} == {1, N_PARALLEL}
    assert "4 at once, ngram-mod, seeded, every offer verified" in names
    assert "one at a time, auto, greedy, prompt kept" in names
    assert [way.title for way in variations((), (), stress=False)] == ["plain again"] * 2 + ["plain"] * 2


def test_who_drafts() -> None:
    auto, single = drafters(SpeculationConfig(), quick=False)
    assert {"copy", "suffix"} <= set(auto) <= set(single)
    assert "ngram-mod" in single
    assert drafters(SpeculationConfig(), quick=True) == (auto, ())
    assert drafters(SpeculationConfig(("copy",)), quick=False) == (("copy",), ("copy",))
    assert drafters(SpeculationConfig(()), quick=False) == ((), ())


def test_a_quick_look_is_short() -> None:
    assert shortened(workloads.load("quicksort-chat")).n_requests == 2
    assert shortened(workloads.load("code-edit")).n_requests == 1


def test_widths_are_watched_and_planning_is_left_alone() -> None:
    watch = Watch(FixedPlanner(n_max=2))
    draft = Draft((4, 5, 6), (1.0, 1.0, 1.0), "d")
    plan = watch.plan([Proposal(DraftAsk(0, [1], 8), [draft])])
    assert plan[0].tokens == (4, 5)
    watch.observe(Step({0: 7}, 1.0, True, {0: Verdict(NO_DRAFT, (3,), 0)}, {}))
    watch.observe(Step({0: 2, 1: 1}, 1.0, False, {0: Verdict(plan[0], (4, 9), 1), 1: Verdict(NO_DRAFT, (8,), 0)}, {}))
    watch.end(0)
    assert watch.widths((3, 4, 9)) == (7, 3, 3)
    assert watch.widths((8,)) == ()
    watch.clear()
    assert watch.widths((3, 4, 9)) == ()
    assert watch.saved_ms(0) is None
    ask = DraftAsk(0, [1], 1)
    assert watch.worth_asking([ask]) == [ask]
    assert not watch.too_dear(ask, "d", [])
