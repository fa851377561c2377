"""Watching a planner: how wide the batch was that decided each token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.planner import Outlook, Planner, Proposal, Step
from foretoken.types import SeqId, Token


class Watch:
    """A planner that leaves the planning to another one and notes the widths of its steps."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._running: dict[SeqId, list[tuple[Token, int]]] = {}
        self._finished: dict[tuple[Token, ...], tuple[int, ...]] = {}

    def believe(self, source: str) -> None:
        self.planner.believe(source)

    def plan(self, proposals: Sequence[Proposal]) -> dict[SeqId, Draft]:
        return self.planner.plan(proposals)

    def rested(self, rows: Mapping[SeqId, int], ms: float, computing_ms: float | None) -> bool:
        """What was said in it is to be known too."""
        return False

    def observe(self, step: Step) -> None:
        for seq, verdict in step.verdicts.items():
            self._running.setdefault(seq, []).extend((token, step.n_rows) for token in verdict.tokens)
        self.planner.observe(step)

    def worth_asking(self, asks: Sequence[DraftAsk]) -> Sequence[DraftAsk]:
        return self.planner.worth_asking(asks)

    def settled(self, ask: DraftAsk, offers: Sequence[Draft]) -> bool:
        return self.planner.settled(ask, offers)

    def too_dear(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> bool:
        return self.planner.too_dear(ask, source, offers)

    def demand_proof(self, source: str) -> None:
        self.planner.demand_proof(source)

    def doubts(self, ask: DraftAsk, source: str, offers: Sequence[Draft]) -> int:
        return self.planner.doubts(ask, source, offers)

    def proved(self, ask: DraftAsk, source: str, guesses: Draft, ms: float) -> None:
        self.planner.proved(ask, source, guesses, ms)

    def appetite(self, ask: DraftAsk, source: str) -> int:
        return self.planner.appetite(ask, source)

    def saved_ms(self, seq: SeqId) -> float | None:
        return self.planner.saved_ms(seq)

    def outlook(self) -> Outlook:
        return self.planner.outlook()

    def end(self, seq: SeqId) -> None:
        rows = self._running.pop(seq, [])
        self._finished[tuple(token for token, _ in rows)] = tuple(width for _, width in rows)
        self.planner.end(seq)

    def widths(self, answer: tuple[Token, ...]) -> tuple[int, ...]:
        """For every token of an answer the width of its batch, if it is known."""
        return self._finished.get(answer, ())

    def clear(self) -> None:
        self._finished.clear()
