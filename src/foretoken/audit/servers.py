"""Another server under audit: its texts are compared with its own, asked alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from foretoken.audit.auditor import SEED, TEMPERATURE, Outcome
from foretoken.audit.comparison import compare_texts
from foretoken.audit.variations import N_PARALLEL
from foretoken.bench.answers import Answer
from foretoken.bench.cases import Case, play
from foretoken.bench.compare import Progress
from foretoken.bench.remote import Server
from foretoken.bench.workloads import Workload
from foretoken.types import SamplingParams

N_STEPS = 6
"""Times that every case is asked."""


def audit_server(
    server: Server, workloads: Sequence[Workload], max_tokens: int | None, say: Progress
) -> Iterator[Outcome]:
    """One at a time, again, and several at once; greedy and seeded."""

    def alone(case: Case) -> Answer:
        say(case.label)
        return server.ask([case])[0]

    played = [pair for work in workloads for pair in play(replace(work, temperature=0.0), None, alone, max_tokens)]
    for choice in ("greedy", "seeded"):
        cases = [_seeded(case) if choice == "seeded" else case for case, _ in played]
        expected = [alone(case) for case in cases] if choice == "seeded" else [answer for _, answer in played]
        for title, n_slots in (("one at a time, again", 1), (f"{N_PARALLEL} at once", N_PARALLEL)):
            with ThreadPoolExecutor(n_slots) as pool:
                got = list(pool.map(alone, cases))
            yield _outcome(f"{title}, {choice}", cases, expected, got)


def _outcome(title: str, cases: Sequence[Case], expected: Sequence[Answer], got: Sequence[Answer]) -> Outcome:
    found = [
        compare_texts(case.label, one.text, other.text) for case, one, other in zip(cases, expected, got, strict=True)
    ]
    answers = tuple((case.label, answer.n_tokens) for case, answer in zip(cases, expected, strict=True))
    return Outcome(title, answers, 0, 0, 0, tuple(one for one in found if one))


def _seeded(case: Case) -> Case:
    return replace(case, sampling=SamplingParams(temperature=TEMPERATURE, seed=SEED))
