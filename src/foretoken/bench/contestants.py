"""Who is measured: the engine plainly, the engine speculating, the oracle, other servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from foretoken.bench.answers import Answer, ask, at_once, fresh_owner
from foretoken.bench.cases import Case
from foretoken.bench.oracle import Limit
from foretoken.engine.engine import Engine
from foretoken.types import OFF, SpeculationParams, Token

PLAIN = "plain"
SPECULATED = "speculated"
LIMIT = "limit"


class Contestant(Protocol):
    """Answers cases, all that are given at once."""

    label: str

    def ask(self, cases: Sequence[Case]) -> list[Answer]: ...


class Turn(Protocol):
    """One contestant or several whose answers are made at the same time; they are given by label."""

    label: str

    def ask(self, cases: Sequence[Case]) -> dict[str, list[Answer]]: ...


class Alone:
    """A contestant that has the machine to itself for whole requests."""

    def __init__(self, contestant: Contestant) -> None:
        self.label = contestant.label
        self._contestant = contestant

    def ask(self, cases: Sequence[Case]) -> dict[str, list[Answer]]:
        return {self.label: self._contestant.ask(cases)}


class EngineContestant:
    """The engine, with drafts or without."""

    def __init__(self, engine: Engine, label: str, speculation: SpeculationParams) -> None:
        self.label = label
        self._engine = engine
        self._speculation = speculation

    def ask(self, cases: Sequence[Case]) -> list[Answer]:
        return at_once([partial(ask, self._engine, case, self._speculation) for case in cases])


class OracleContestant:
    """The engine with a drafter that knows the recorded answers."""

    label = LIMIT

    def __init__(self, engine: Engine, limit: Limit, recorded: Mapping[str, tuple[Token, ...]]) -> None:
        """The recorded answers come by the labels of their cases."""
        self._engine = engine
        self._limit = limit
        self._recorded = recorded

    def ask(self, cases: Sequence[Case]) -> list[Answer]:
        owners = [fresh_owner() for _ in cases]
        recordings = [self._recorded[case.label] for case in cases]
        self._limit.drafter.recordings = dict(zip(owners, recordings, strict=True))
        anyone = SpeculationParams()
        with self._limit.speculating():
            return at_once(
                [partial(ask, self._engine, case, anyone, owner) for case, owner in zip(cases, owners, strict=True)]
            )


def ours(engine: Engine) -> tuple[EngineContestant, EngineContestant]:
    """Plain first, speculated second."""
    return (
        EngineContestant(engine, PLAIN, OFF),
        EngineContestant(engine, SPECULATED, SpeculationParams()),
    )
