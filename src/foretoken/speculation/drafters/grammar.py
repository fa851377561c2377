"""`grammar`: where a grammar leaves no choice, what comes next is known."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.types import SeqId, Token


class GrammarDrafter:
    """Offers what the grammar of a constrained answer forces: keys, quotes, brackets, fixed texts."""

    name = "grammar"
    for_grammars = True

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """Nothing to do: the grammar comes with every ask."""

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Nothing to learn."""

    def end(self, seq: SeqId) -> None:
        """Nothing is kept."""

    def _draft(self, ask: DraftAsk) -> Draft:
        forced = tuple(ask.grammar.forced()[: ask.n_max]) if ask.grammar is not None else ()
        return Draft(forced, (1.0,) * len(forced), self.name) if forced else NO_DRAFT
