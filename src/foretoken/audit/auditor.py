"""Running the variations on an engine and holding every answer against the plain one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from foretoken.audit.comparison import Divergence, first_difference
from foretoken.audit.saboteur import NAME, Saboteur
from foretoken.audit.variations import Variation
from foretoken.audit.watch import Watch
from foretoken.bench.answers import Answer, ask
from foretoken.bench.cases import Case
from foretoken.bench.compare import Progress, record
from foretoken.bench.oracle import speculating_with
from foretoken.bench.workloads import Workload
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.speculation.planner import FixedPlanner, Planner
from foretoken.speculation.speculator import Speculator
from foretoken.types import OFF, SamplingParams, SpeculationParams, Token

SEED = 3407
TEMPERATURE = 0.8
_FORCED = FixedPlanner(n_min=0, n_max=16, p_min=0.0)
_MAX_EXPLAINED = 20
"""Divergences of one variation that are looked into; each costs another answer."""


Expected = tuple[Case, tuple[Token, ...]]


@dataclass(frozen=True, slots=True)
class References:
    """What plain decoding says, one request at a time: greedy answers, then seeded ones, case by case."""

    cases: tuple[Case, ...]
    greedy: tuple[tuple[Token, ...], ...]
    seeded: tuple[tuple[Token, ...], ...]
    too_long: tuple[str, ...] = ()

    def of(self, variation: Variation) -> list[Expected]:
        """Cases as a variation asks them, with the expected answers."""
        if variation.seeded:
            return [(_seeded(case), answer) for case, answer in zip(self.cases, self.seeded, strict=True)]
        return list(zip(self.cases, self.greedy, strict=True))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one variation came to."""

    variation: str
    answers: tuple[tuple[str, int], ...]
    """Cases, each with the number of tokens compared."""
    n_drafted: int
    n_accepted: int
    n_rewinds: int
    divergences: tuple[Divergence, ...]


class Auditor:
    """One engine under audit."""

    def __init__(self, engine: Engine, say: Progress) -> None:
        self._engine = engine
        self._say = say
        self._planner: Planner = engine.call(lambda loop: loop.speculator.planner)
        self._watch = Watch(self._planner)
        engine.call(self._install)
        vocabulary = engine.vocabulary
        self._saboteur = Saboteur(vocabulary.n_tokens)
        self._sabotage = Speculator([self._saboteur], self._watch, vocabulary.n_tokens, vocabulary.end_tokens)

    def references(self, workloads: Sequence[Workload], max_tokens: int | None) -> References:
        """Answer every case plainly; chats get their greedy answers as history."""
        recordings = [record(self._engine, replace(work, temperature=0.0), max_tokens, self._say) for work in workloads]
        cases = tuple(case for recording in recordings for case in recording.cases)
        seeded = []
        for case in cases:
            self._say(f"recording {case.label} seeded")
            seeded.append(ask(self._engine, _seeded(case), OFF).tokens)
        greedy = tuple(answer for recording in recordings for answer in recording.answers)
        too_long = tuple(label for recording in recordings for label in recording.too_long)
        return References(cases, greedy, tuple(seeded), too_long)

    def run(self, variation: Variation, references: References) -> Outcome:
        """Ask every case in this way and compare."""
        self._watch.planner = _FORCED if variation.forced else self._planner
        expected = references.of(variation)
        # An engine that lets nobody draft, to be exact, is not to be sabotaged by drafting all the same.
        sabotaged = NAME in variation.drafters and not self._engine.assembly.alone
        answers = self._sabotaged(variation, expected) if sabotaged else self._ask(variation, expected)
        different: list[Divergence] = []
        for (case, tokens), answer in zip(expected, answers, strict=True):
            if answer.tokens != tokens:
                different.append(self._divergence(case, tokens, answer.tokens, len(different) < _MAX_EXPLAINED))
        self._engine.call(lambda _: self._watch.clear())
        usages = [answer.usage for answer in answers if answer.usage]
        return Outcome(
            str(variation),
            tuple((case.label, len(tokens)) for case, tokens in expected),
            sum(usage.drafted for usage in usages),
            sum(usage.accepted for usage in usages),
            sum(usage.rewinds for usage in usages),
            tuple(different),
        )

    def _ask(self, variation: Variation, expected: Sequence[Expected]) -> list[Answer]:
        """As many at once as there are slots; the next request comes when one is done."""
        speculation = SpeculationParams(drafters=variation.drafters)

        def answer(case: Case) -> Answer:
            self._say(f"{variation.title} {case.label}")
            owner = _owner(variation, case)
            return ask(self._engine, case, speculation, owner, cache_prompt=variation.cache_prompt)

        with ThreadPoolExecutor(variation.n_slots) as pool:
            return list(pool.map(answer, [case for case, _ in expected]))

    def _sabotaged(self, variation: Variation, expected: Sequence[Expected]) -> list[Answer]:
        """The same with a drafter that knows the expected answers and spoils them."""
        self._saboteur.recordings = {_owner(variation, case): tokens for case, tokens in expected}
        with speculating_with(self._engine, self._sabotage):
            return self._ask(variation, expected)

    def _divergence(self, case: Case, expected: tuple[Token, ...], got: tuple[Token, ...], explain: bool) -> Divergence:
        at = first_difference(expected, got)
        assert at is not None
        # Between steps, so that the last one has been noted.
        widths = self._engine.call(lambda _: self._watch.widths(got))
        ours, theirs = (tokens[at] if at < len(tokens) else None for tokens in (expected, got))
        return Divergence(
            case.label, at, self._text(ours), self._text(theirs), ours, theirs,
            widths[at] if at < len(widths) else None,
            self._margin(case, expected, at) if explain else None,
        )  # fmt: skip

    def _margin(self, case: Case, expected: tuple[Token, ...], at: int) -> float | None:
        """How far apart the two best tokens were, by asking plainly once more."""
        answer = ask(self._engine, case, OFF, logprobs=2, max_tokens=at + 1)
        if answer.tokens[:at] != expected[:at] or len(answer.infos) <= at:
            return None
        top = answer.infos[at].top
        return top[0][1] - top[1][1] if len(top) > 1 else None

    def _text(self, token: Token | None) -> str | None:
        return None if token is None else self._engine.detokenize([token])

    def _install(self, loop: Loop) -> None:
        loop.speculator.planner = self._watch


def _owner(variation: Variation, case: Case) -> str:
    """One owner for all that a drafter answers: what it has learnt makes its drafts longer, and the audit harder."""
    return f"{NAME} {case.label}" if NAME in variation.drafters else f"{variation.title} {variation.seeded}"


def _seeded(case: Case) -> Case:
    return replace(case, sampling=SamplingParams(temperature=TEMPERATURE, seed=SEED))
