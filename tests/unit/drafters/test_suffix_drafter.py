"""What the suffix drafter is for."""

from __future__ import annotations

from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.drafters.suffix import SuffixDrafter


def ask(drafter: SuffixDrafter, tokens: list[int], n_max: int = 8, seq: int = 0) -> Draft:
    return drafter.draft([DraftAsk(seq, tokens, n_max)])[0]


def test_the_longest_match_wins_over_the_latest() -> None:
    long_context = [1, 2, 3, 4, 5, 6, 7, 8]
    tokens = [*long_context, 50, 51, 52, 6, 7, 8, 60, 61, 0, *long_context]
    assert ask(SuffixDrafter(), tokens, 3).tokens == (50, 51, 52)


def test_the_most_frequent_continuation_wins() -> None:
    tokens = [1, 2, 3, 10, 0, 1, 2, 3, 10, 4, 1, 2, 3, 20, 5, 1, 2, 3]
    draft = ask(SuffixDrafter(), tokens, 1)
    assert draft.tokens == (10,)
    assert draft.confidence[0] < 0.5


def test_agreement_and_length_make_it_sure() -> None:
    rivals = ask(SuffixDrafter(), [1, 2, 3, 10, 0, 1, 2, 3, 20, 4, 1, 2, 3], 1)
    short = ask(SuffixDrafter(), [1, 2, 3, 10, 0, 1, 2, 3], 1)
    long = ask(SuffixDrafter(), [*range(1, 30), 50, *range(1, 30)], 1)
    assert rivals.confidence < short.confidence < long.confidence
    assert long.confidence[0] > 0.95


def test_earlier_answers_of_the_owner_serve() -> None:
    drafter = SuffixDrafter()
    drafter.begin(0, [1], "a")
    ask(drafter, [1, *range(20, 40)])
    drafter.end(0)
    drafter.begin(1, [3], "a")
    assert ask(drafter, [3, 22, 23, 24], 30, seq=1).tokens == tuple(range(25, 40))
    drafter.begin(1, [3], "b")
    assert not ask(drafter, [3, 22, 23, 24], 30, seq=1)


def test_a_question_asked_again_is_foreseen_from_the_first_token_on() -> None:
    drafter, question, answer = SuffixDrafter(), list(range(100, 140)), list(range(20, 30))
    drafter.begin(0, question, "a")
    ask(drafter, [*question, *answer])
    drafter.end(0)
    drafter.begin(1, question, "a")
    draft = ask(drafter, question, 30, seq=1)
    assert draft.tokens == tuple(answer)
    assert draft.confidence[0] > 0.95
    drafter.begin(1, question, "b")
    assert not ask(drafter, question, 30, seq=1)


def test_a_question_without_an_answer_is_not_remembered() -> None:
    drafter = SuffixDrafter()
    drafter.begin(0, [*range(40)], "a")
    ask(drafter, [*range(40)])
    drafter.end(0)
    assert not drafter.past.of("a").tokens


def test_answers_are_not_run_together() -> None:
    drafter = SuffixDrafter()
    for answer in ([20, 21, 22, 23], [30, 31, 32, 33]):
        drafter.begin(0, [1], "a")
        ask(drafter, [1, *answer])
        drafter.end(0)
    drafter.begin(0, [1], "a")
    assert ask(drafter, [1, 20, 21, 22]).tokens == (23,)


def test_the_past_is_bounded() -> None:
    drafter = SuffixDrafter(max_past=500, max_owners=3)
    for n in range(40):
        drafter.begin(0, [1], f"owner {n % 5}")
        ask(drafter, [1, *[i * n % 1009 for i in range(100)]])
        drafter.end(0)
    assert len(drafter.past) == 3
    assert all(len(past.tokens) <= 600 for past in drafter.past)
    assert drafter.memory_bytes() < 3 * 600 * 1000
