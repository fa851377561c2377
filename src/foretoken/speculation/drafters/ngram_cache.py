"""`ngram-cache`: statistics of n-grams of 1 to 4 tokens, from the request, its owner's past, and files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foretoken.speculation.drafters.gram_table import MAX_N, Demands, GramTable, gram_keys
from foretoken.speculation.drafters.owners import Owners
from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter
from foretoken.types import Token

LAX: Demands = ((2, 0.66, 0.6), (2, 0.5, 0.7), (1, 0.5, 0.8), (1, 0.5, 0.93))
STRICT: Demands = ((4, 0.75, 0.5), (3, 0.66, 0.6), (2, 0.66, 0.7), (2, 0.66, 0.8))


@dataclass(slots=True)
class _Reading(Reading):
    past: GramTable = field(kw_only=True)
    """What the owner's earlier answers taught."""
    table: GramTable = field(default_factory=GramTable)
    output: list[Token] = field(default_factory=list)
    """The answer, with the last tokens of the prompt for context."""
    n_context: int = 0


class NgramCacheDrafter(TextDrafter[_Reading]):
    """Chains the likeliest next tokens while the statistics are clear."""

    name = "ngram-cache"

    def __init__(
        self,
        *,
        n_max: int = 12,
        p_min: float = 0.05,
        lookup_cache_static: str = "",
        lookup_cache_dynamic: str = "",
        max_tokens: int = 65536,
        max_grams: int = 65536,
        max_owners: int = 8,
    ) -> None:
        super().__init__()
        if n_max < 1 or max_tokens < 1024:
            raise ValueError("n_max must be at least 1 and max_tokens at least 1024")
        self.n_max = n_max
        self.p_min = p_min
        self.max_tokens = max_tokens
        self.max_grams = max_grams
        self.static = GramTable.load(lookup_cache_static) if lookup_cache_static else GramTable()
        self.dynamic = GramTable.load(lookup_cache_dynamic) if lookup_cache_dynamic else GramTable()
        self.past = Owners(GramTable, max_owners)

    def save(self, path: str | Path, owner: str) -> None:
        """Write what the owner's answers taught, as a file for `lookup_cache_dynamic` or `_static`."""
        self.past.of(owner).save(path)

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _Reading:
        return _Reading(owner, past=self.past.of(owner))

    def _read(self, reading: _Reading, tokens: Sequence[Token]) -> None:
        first = reading.n_read
        if first < reading.n_prompt:
            reading.n_context = min(MAX_N, reading.n_prompt)
            reading.output.extend(tokens[reading.n_prompt - reading.n_context :])
            first = max(first, len(tokens) - self.max_tokens)
        else:
            reading.output.extend(tokens[first:])
        if len(reading.table) > MAX_N * self.max_tokens:
            # Starting again from the recent half costs one slow step and keeps the memory bounded.
            reading.table = GramTable()
            first = max(0, len(tokens) - self.max_tokens // 2)
        reading.table.add(tokens, first)

    def _guess(self, reading: _Reading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        tiers = [(reading.table, LAX)]
        tiers += [(table, STRICT) for table in (reading.past, self.dynamic) if len(table)]
        tiers += [(self.static, LAX)] if len(self.static) else []
        context = tuple(tokens[-MAX_N:])
        found: list[Token] = []
        sure: list[float] = []
        reach = 1.0
        for _ in range(min(n_max, self.n_max)):
            keys = gram_keys(context)
            for table, demands in tiers:
                step = table.likeliest(keys, demands)
                if step is not None:
                    break
            else:
                break
            reach *= step[1]
            if reach < self.p_min:
                break
            found.append(step[0])
            sure.append(step[1])
            context = (*context[1 - MAX_N :], step[0])
        return found, sure

    def _close(self, reading: _Reading) -> None:
        if reading.owner is None or len(reading.output) <= reading.n_context:
            return
        reading.past.add(reading.output, reading.n_context)
        if len(reading.past) > self.max_grams:
            reading.past.prune()
        if len(reading.past) > self.max_grams:
            reading.past.clear()

    def memory_bytes(self) -> int:
        """Roughly the bytes held for all sequences, owners and files."""
        tables = [reading.table for reading in self._readings.values()]
        return sum(table.memory_bytes() for table in (*tables, *self.past, self.static, self.dynamic))
