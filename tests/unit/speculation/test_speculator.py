"""One door: drafters are asked fairly, judged honestly and counted exactly."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.aside import Aside
from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.speculation.planner import FixedPlanner, Step
from foretoken.speculation.speculator import Speculator
from foretoken.speculation.statistics import line


class Scripted:
    """Says what it is told to say, and notes what it is told."""

    def __init__(self, name: str, says: Sequence[int] = (), costly: bool = False) -> None:
        self.name = name
        self.says = tuple(says)
        self.costly = costly
        self.calls: list[str] = []

    def begin(self, seq: int, prompt: Sequence[int], owner: str) -> None:
        self.calls.append(f"begin {seq} {owner}")

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        self.calls.append("draft")
        return [Draft(self.says, (0.9,) * len(self.says), self.name) for _ in asks]

    def accept(self, seq: int, verdict: Verdict) -> None:
        self.calls.append(f"accept {verdict.n_accepted}")

    def end(self, seq: int) -> None:
        self.calls.append(f"end {seq}")


def speculator(*drafters: Scripted, n_max: int = 8, end_tokens: frozenset[int] = frozenset()) -> Speculator:
    return Speculator(drafters, FixedPlanner(n_max=n_max), 100, end_tokens)


def ask(n_max: int = 8) -> DraftAsk:
    return DraftAsk(0, [1, 2, 3], n_max)


class Doubting(FixedPlanner):
    """Wants proof before every ask, and notes what it heard."""

    __slots__ = ("heard",)

    def doubts(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> int:
        return 2

    def proved(self, ask: DraftAsk, source: str, guesses: Draft, ms: float) -> None:
        object.__setattr__(self, "heard", (source, guesses))


class Remembering(Scripted):
    """Knows what of the text it would have guessed."""

    remembers = Draft((1, 1), (0.5, 0.5), "whoever")

    def hindsight(self, ask: DraftAsk, n: int) -> Draft:
        self.calls.append(f"hindsight {n}")
        if not self.says:
            raise ValueError("lost my memory")
        return self.remembers


def test_who_takes_long_and_can_look_back_is_made_to() -> None:
    quick, slow = Remembering("quick", [5]), Remembering("slow", [6, 7], costly=True)
    planner = Doubting()
    s = Speculator([quick, slow], planner, 100)
    s.begin(0, [1], "")
    s.draft([ask()])
    assert planner.heard == ("slow", Draft((1, 1), (0.5, 0.5), "slow"))
    assert slow.calls == ["begin 0 ", "hindsight 2", "draft"]
    assert quick.calls == ["begin 0 ", "draft"]
    assert s.statistics["slow"].draft.n == 2
    assert s.end(0)["slow"].draft_ms == s.statistics["slow"].draft.ms, "both are booked"


def test_who_fails_to_look_back_would_have_guessed_nothing(caplog: pytest.LogCaptureFixture) -> None:
    planner = Doubting()
    s = Speculator([Remembering("slow", costly=True)], planner, 100)
    s.begin(0, [1], "")
    s.draft([ask()])
    assert planner.heard == ("slow", NO_DRAFT)
    assert "failed in hindsight: ValueError: lost my memory" in caplog.text


@pytest.mark.parametrize(
    ("guesses", "fault"),
    [
        (Draft((1, 1, 1), (0.5,) * 3, "slow"), "looked back on 3 tokens, not 2"),
        (Draft((1, 1), (0.5,), "slow"), "looked back on 2 tokens, not 2"),
        (Draft((1,), (float("nan"),), "slow"), "was sure of tokens by (nan,)"),
        (0.5, "has no attribute 'tokens'"),
    ],
)
def test_who_remembers_what_cannot_be_is_not_believed(
    guesses: Draft, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    planner = Doubting()
    slow = Remembering("slow", [6, 7], costly=True)
    slow.remembers = guesses
    s = Speculator([slow], planner, 100)
    s.begin(0, [1], "")
    s.draft([ask()])
    assert planner.heard == ("slow", NO_DRAFT)
    assert fault in caplog.text


def test_only_the_allowed_are_asked() -> None:
    one, two = Scripted("one", [5]), Scripted("two", [6, 7])
    s = speculator(one, two)
    s.begin(0, [1], "ann", ["one"])
    assert s.draft([ask()])[0].source == "one"
    assert two.calls == []
    s.end(0)
    s.begin(0, [1], "ann", [])
    assert s.draft([ask()]) == {}


def test_a_request_that_allows_nobody_is_not_planned_for(monkeypatch: pytest.MonkeyPatch) -> None:
    planner = FixedPlanner(n_max=8)
    planned: list[int] = []
    monkeypatch.setattr(FixedPlanner, "worth_asking", lambda self, asks: planned.append(len(asks)) or asks)
    s = Speculator([Scripted("a", [7])], planner, 100)
    s.begin(0, [1], "me", allowed=())
    assert s.draft([ask()]) == {}
    assert not planned
    s.end(0)
    s.begin(0, [1], "me")
    assert s.draft([ask()])
    assert planned == [1]


def test_where_an_offer_settles_it_nobody_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Scripted("a", [7, 8]), Scripted("b", [9])
    monkeypatch.setattr(FixedPlanner, "settled", lambda self, ask, offers: any(len(offer) > 1 for offer in offers))
    s = speculator(first, second)
    s.begin(0, [1], "me")
    assert s.draft([ask()])[0].source == "a"
    assert "draft" not in second.calls
    first.says = (7,)
    s.draft([ask()])
    assert "draft" in second.calls


def test_feedback_goes_to_whoever_drafted() -> None:
    one, two = Scripted("one", [5]), Scripted("two", [6, 7])
    s = speculator(one, two)
    s.begin(0, [1], "ann")
    draft = s.draft([ask()])[0]
    assert draft.source == "two", "two tokens promise more than one"
    s.accept(0, Verdict(draft, (6, 9), 1))
    assert "accept 1" in two.calls
    assert not any(call.startswith("accept") for call in one.calls)
    assert "begin 0 ann" in one.calls


def test_drafts_end_before_the_end_of_the_answer() -> None:
    s = speculator(Scripted("one", [5, 6, 99, 7]), end_tokens=frozenset({99}))
    s.begin(0, [1], "")
    assert s.draft([ask()])[0].tokens == (5, 6)


def test_what_was_offered_but_not_verified_and_right_is_counted_as_missed() -> None:
    s = speculator(Scripted("one", [5, 6, 7, 8]), Scripted("two", [5, 6]), n_max=2)
    s.begin(0, [1], "")
    draft = s.draft([ask()])[0]
    s.accept(0, Verdict(draft, (5, 6, 7), 2))
    s.draft([ask()])
    s.accept(0, Verdict(NO_DRAFT, (8,), 0))
    used = s.end(0)
    missed = {name: usage.missed for name, usage in used.items()}
    assert missed == {"one": 2, "two": 2} if draft.source == "one" else {"one": 4, "two": 0}


def test_a_slow_drafter_is_reported(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretoken.speculation.guard.SLOW_MS", -1.0)
    s = speculator(Scripted("one", [5]))
    s.begin(0, [1], "")
    with caplog.at_level(logging.WARNING):
        for _ in range(4):
            s.draft([ask()])
    assert "took" in caplog.text
    assert not s.guards[0].enabled


def test_the_planner_learns_at_once_only_what_the_next_plan_needs() -> None:
    seen: list[tuple[int, ...]] = []

    class Learning(FixedPlanner):
        def observe(self, step: Step) -> None:
            seen.append(step.verdicts[0].tokens)

        def rested(self, rows: Mapping[int, int], ms: float, computing_ms: float | None) -> bool:
            return False

    aside = Aside(later=True)
    s = Speculator([Scripted("one", [5])], Learning(), 100)
    s.begin(0, [1], "")
    s.draft([ask()])
    s.accept(0, Verdict(NO_DRAFT, (7,), 0))
    s.stepped({0: 1}, 1.0, False, aside)
    assert seen == [(7,)], "somebody was asked, and is judged by this"
    s.accept(0, Verdict(NO_DRAFT, (8,), 0))
    s.stepped({0: 1}, 1.0, False, aside)
    assert seen == [(7,)], "nobody was: it can wait"
    aside.catch_up()
    assert seen == [(7,), (8,)]
    s.accept(0, Verdict(NO_DRAFT, (9,), 0))
    s.end(0)
    s.stepped({0: 1}, 1.0, False, aside)
    assert seen == [(7,), (8,), (9,)], "the next request may begin in this slot at once"


def test_of_a_step_for_which_nobody_was_asked_a_planner_may_want_to_know_no_more_than_what_it_took() -> None:
    seen: list[object] = []

    class Resting(FixedPlanner):
        def observe(self, step: Step) -> None:
            seen.append(step.verdicts[0].tokens)

        def rested(self, rows: Mapping[int, int], ms: float, computing_ms: float | None) -> bool:
            seen.append((dict(rows), ms, computing_ms))
            return True

    s = Speculator([Scripted("one", [5])], Resting(), 100)
    s.begin(0, [1], "")
    s.accept(0, Verdict(NO_DRAFT, (7,), 0))
    s.stepped({0: 1}, 2.0, False, computing_ms=1.5)
    assert seen == [({0: 1}, 2.0, 1.5)]
    s.accept(0, Verdict(NO_DRAFT, (8,), 0))
    s.stepped({0: 9}, 2.0, reading=True)
    s.draft([ask()])
    s.accept(0, Verdict(NO_DRAFT, (9,), 0))
    s.stepped({0: 1}, 2.0, False)
    assert seen[1:] == [(8,), (9,)], "of others it is told everything, and nothing of those before"


@given(st.lists(st.tuples(st.lists(st.integers(0, 9), max_size=6), st.integers(0, 6)), max_size=30))
def test_counters_add_up(steps: list[tuple[list[int], int]]) -> None:
    drafter = Scripted("one")
    s = speculator(drafter, n_max=4)
    s.begin(0, [1], "")
    emitted = 0
    for says, right in steps:
        drafter.says = tuple(says)
        draft = s.draft([ask()]).get(0, NO_DRAFT)
        n = min(right, len(draft))
        tokens = (*draft.tokens[:n], 50)
        emitted += len(tokens)
        s.accept(0, Verdict(draft, tokens, n))
        s.stepped({0: 1 + len(draft)}, 1.0, False)
    total = s.statistics["one"]
    used = s.end(0)["one"]
    assert total.offered == total.verified + total.unverified
    assert total.verified == total.accepted + total.rejected
    assert emitted == total.accepted + len(steps)
    assert sum(total.accepted_at) == total.accepted
    assert sum(total.verified_at) == total.verified
    assert (used.offered, used.verified, used.accepted) == (total.offered, total.verified, total.accepted)
    assert line("one", used).startswith("statistics one: #calls(b,g,a) = 1 ")
