"""A whole audit of a model: one slot first, then several, all against the same references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby

from foretoken.audit.auditor import Auditor, Outcome, References
from foretoken.audit.variations import Variation, drafters, shortened, variations
from foretoken.bench.compare import Progress
from foretoken.bench.workloads import Workload
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine

QUICK_TOKENS = 48


@dataclass(slots=True)
class Audit:
    """What is audited, and what was found so far."""

    config: EngineConfig
    workloads: tuple[Workload, ...]
    max_tokens: int | None = None
    stress: bool = False
    quick: bool = False
    settings: list[str] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    too_long: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.quick:
            self.workloads = tuple(shortened(workload) for workload in self.workloads)
            self.max_tokens = min(QUICK_TOKENS, self.max_tokens or QUICK_TOKENS)

    @property
    def variations(self) -> list[Variation]:
        return list(variations(*drafters(self.config.speculation, self.quick), self.stress))

    @property
    def n_steps(self) -> int:
        """How often progress is told about: two references and every variation for each case."""
        return (2 + len(self.variations)) * sum(workload.n_requests for workload in self.workloads)

    def run(self, say: Progress) -> Iterator[Outcome]:
        """The outcomes, one after the other."""
        references: References | None = None
        for n_slots, group in groupby(self.variations, key=lambda variation: variation.n_slots):
            with Engine.from_config(replace(self._every_drafter(), n_parallel=n_slots)) as engine:
                self.settings.append(engine.assembly.describe())
                auditor = Auditor(engine, say)
                references = references or auditor.references(self.workloads, self.max_tokens)
                self.too_long = references.too_long
                for variation in group:
                    self.outcomes.append(auditor.run(variation, references))
                    yield self.outcomes[-1]

    def _every_drafter(self) -> EngineConfig:
        """One engine for all variations: requests name the drafters they want."""
        together, single = drafters(self.config.speculation, self.quick)
        names = tuple(dict.fromkeys([*together, *single]))
        return replace(self.config, speculation=replace(self.config.speculation, drafters=names))
