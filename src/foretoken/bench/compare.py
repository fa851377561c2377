"""Plain against speculated against the limit, in one process on one model, and other servers in turns with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from foretoken.bench.answers import Answer, ask
from foretoken.bench.cases import Case, play, renderer
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED, Turn
from foretoken.bench.statistics import Ratio, Sample, paired_ratio, ratio, sample, speed
from foretoken.bench.workloads import Workload
from foretoken.engine.engine import Engine
from foretoken.types import OFF, DrafterUsage, Token, Usage

Progress = Callable[[str], None]
"""Told before every group of requests what comes next."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A workload's requests with the answers plain decoding gave, and the requests that do not fit the context."""

    workload: Workload
    cases: tuple[Case, ...]
    answers: tuple[tuple[Token, ...], ...]
    too_long: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast one contestant was."""

    tokens_per_second: float
    ratio: Ratio
    """Against plain decoding."""
    n_identical: int
    """Answers that were the recorded one, token for token (servers: letter for letter)."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """What one drafter did for all answers: how often it was asked, for how long, and what was verified of it."""

    asks: int
    ms: float
    verified: int
    accepted: int


@dataclass(frozen=True, slots=True)
class Result:
    """What one workload showed with one number of slots."""

    workload: str
    title: str
    n_slots: int
    n_requests: int
    n_answers: int
    """Answers of each contestant, over all rounds."""
    n_tokens: int
    paces: dict[str, Pace]
    accepted_length: float
    """Tokens accepted of a draft that was verified, on average."""
    tokens_per_step: float
    saved_ms: float
    """What the ledger says was saved, per round."""
    drafters: dict[str, Drafting] = field(default_factory=dict)


@dataclass(slots=True)
class _Tally:
    """All rounds of one contestant: by group of requests, the samples; and what the answers were."""

    samples: list[list[Sample]]
    beside_plain: bool
    """Whether the answers were made at the same time as the plain ones."""
    answers: list[tuple[Case, Answer]] = field(default_factory=list)


def record(engine: Engine, workload: Workload, max_tokens: int | None, say: Progress) -> Recording:
    """Answer a workload plainly, one request after the other: the text all others are held against."""
    too_long: list[str] = []

    def answer(case: Case) -> Answer | None:
        say(f"recording {case.label}")
        if len(engine.tokenize(case.prompt)) + case.max_tokens > engine.n_ctx:
            too_long.append(case.label)
            return None
        return ask(engine, case, OFF)

    played = list(play(workload, renderer(engine.assembly.model), answer, max_tokens))
    return Recording(
        workload, tuple(case for case, _ in played), tuple(reply.tokens for _, reply in played), tuple(too_long)
    )


def recorded_answers(recordings: Iterable[Recording]) -> dict[str, tuple[Token, ...]]:
    """What was said, by the labels of the cases."""
    pairs = (pair for recording in recordings for pair in zip(recording.cases, recording.answers, strict=True))
    return {case.label: tokens for case, tokens in pairs}


def compare(
    engine: Engine,
    recording: Recording,
    n_slots: int,
    n_rounds: int,
    turns: Sequence[Turn],
    say: Progress,
) -> Result:
    """Measure one workload; whoever went first in one round goes last in the next."""
    groups = [recording.cases[i : i + n_slots] for i in range(0, len(recording.cases), n_slots)]
    tallies: dict[str, _Tally] = {}
    for round_ in range(n_rounds):
        for which, group in enumerate(groups):
            for turn in _order(turns, round_ + which):
                say(f"{group[0].label} {turn.label}")
                answered = turn.ask(group)
                for label, answers in answered.items():
                    tally = tallies.setdefault(label, _Tally([[] for _ in groups], PLAIN in answered))
                    tally.samples[which].append(sample(answers))
                    tally.answers += zip(group, answers, strict=True)
    return _result(engine, recording, n_slots, n_rounds, tallies)


def _order(turns: Sequence[Turn], n: int) -> list[Turn]:
    """The order of a round: rotated, and backwards every other time."""
    at = n // 2 % len(turns)
    order = [*turns[at:], *turns[:at]]
    return order[::-1] if n % 2 else order


def _result(
    engine: Engine,
    recording: Recording,
    n_slots: int,
    n_rounds: int,
    tallies: dict[str, _Tally],
) -> Result:
    plain = tallies[PLAIN].samples
    recorded = recorded_answers([recording])
    texts = {label: engine.detokenize(list(_without_end(engine, tokens))) for label, tokens in recorded.items()}
    paces = {
        label: Pace(
            speed(tally.samples),
            paired_ratio(plain, tally.samples) if tally.beside_plain else ratio(plain, tally.samples),
            sum(_same(answer, recorded[case.label], texts[case.label]) for case, answer in tally.answers),
        )
        for label, tally in tallies.items()
    }
    usages = [answer.usage for _, answer in tallies[SPECULATED].answers if answer.usage]
    accepted_length, tokens_per_step = _lengths(usages)
    return Result(
        recording.workload.name,
        recording.workload.title,
        n_slots,
        len(recording.cases),
        len(tallies[PLAIN].answers),
        sum(map(len, recording.answers)),
        paces,
        accepted_length,
        tokens_per_step,
        sum(usage.saved_ms or 0.0 for usage in usages) / max(1, n_rounds),
        _drafting(usages),
    )


def _drafting(usages: Sequence[Usage]) -> dict[str, Drafting]:
    found: dict[str, list[DrafterUsage]] = {}
    for usage in usages:
        for name, drafter in usage.drafters.items():
            found.setdefault(name, []).append(drafter)
    return {
        name: Drafting(
            sum(one.draft_calls for one in parts),
            sum(one.draft_ms for one in parts),
            sum(one.verified for one in parts),
            sum(one.accepted for one in parts),
        )
        for name, parts in found.items()
    }


def _lengths(usages: Sequence[Usage]) -> tuple[float, float]:
    """Accepted tokens per verified draft, and tokens per step of the answers."""
    verified = sum(drafter.drafts_verified for usage in usages for drafter in usage.drafters.values())
    accepted = sum(usage.accepted for usage in usages)
    n_tokens = sum(usage.completion_tokens for usage in usages)
    return accepted / max(1, verified), n_tokens / max(1, n_tokens - accepted)


def _same(answer: Answer, tokens: tuple[Token, ...], text: str) -> bool:
    return answer.tokens == tokens if answer.usage else answer.text == text


def _without_end(engine: Engine, tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    return tuple(token for token in tokens if not engine.vocabulary.is_control(token))


def share_of_limit(result: Result) -> float:
    """How much of the oracle's speed was reached."""
    limit = result.paces[LIMIT].ratio.value
    return result.paces[SPECULATED].ratio.value / limit if limit else 0.0
