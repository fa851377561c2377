"""The ways of asking that must not change the text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from foretoken.audit import saboteur
from foretoken.bench.workloads import Workload
from foretoken.config import SpeculationConfig
from foretoken.speculation.drafters import TEXT_DRAFTERS
from foretoken.speculation.registry import resolve

N_PARALLEL = 4
_QUICK_TURNS = 2


@dataclass(frozen=True, slots=True)
class Variation:
    """One way of asking every case: how many at once, who drafts, how tokens are chosen."""

    n_slots: int
    drafters: tuple[str, ...]
    seeded: bool
    title: str
    forced: bool = False
    """Whatever is offered is verified, whether it is expected to pay or not."""
    cache_prompt: bool = False

    def __str__(self) -> str:
        order = "one at a time" if self.n_slots == 1 else f"{self.n_slots} at once"
        parts = [order, self.title, "seeded" if self.seeded else "greedy"]
        parts += ["every offer verified"] * self.forced + ["prompt kept"] * self.cache_prompt
        return ", ".join(parts)


def variations(auto: Sequence[str], single: Sequence[str], stress: bool) -> Iterator[Variation]:
    """All of them, those of one number of slots together."""
    for n_slots in (1, N_PARALLEL):
        for seeded in (False, True):
            title = "plain again" if n_slots == 1 else "plain"
            yield Variation(n_slots, (), seeded, title)
            if not auto:
                continue
            sabotaged = Variation(n_slots, (saboteur.NAME,), seeded, saboteur.NAME)
            yield replace(sabotaged, forced=stress)
            everyone = Variation(n_slots, tuple(auto), seeded, "auto")
            yield everyone
            yield replace(everyone, cache_prompt=True)
            if stress:
                yield replace(everyone, forced=True)
            for name in single:
                yield Variation(n_slots, (name,), seeded, name, forced=stress)


def drafters(settings: SpeculationConfig, quick: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who drafts together, and who is tried alone: all that read text, and those the settings name."""
    together = resolve(settings)
    if not together or quick:
        return together, ()
    if "auto" not in settings.drafters:
        return together, together
    return together, tuple(dict.fromkeys([*(kind.name for kind in TEXT_DRAFTERS), *together]))


def shortened(workload: Workload) -> Workload:
    """The first conversation, its first turns: enough for a quick look."""
    first = workload.conversations[0]
    return replace(workload, conversations=(replace(first, turns=first.turns[:_QUICK_TURNS]),))
