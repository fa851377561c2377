"""One batch in the making: whose tokens it holds, and in which rows."""

from __future__ import annotations

import msgspec

from foretoken.backend import Span
from foretoken.engine.session import Session
from foretoken.engine.slot import Slot
from foretoken.speculation.base import NO_DRAFT, Draft


class Work(msgspec.Struct, frozen=True):
    """One slot's part of a batch: pending tokens, then the draft that will be judged."""

    slot: Slot
    session: Session
    span: Span
    draft: Draft
    n_certain: int
    """Rows that will stay whatever the verdict."""
    n_judged: int
    """Rows at the end whose tokens are sampled: one, and one per drafted token; none while a prompt is read."""

    @property
    def judged(self) -> range:
        """The batch rows to sample from."""
        end = self.span.first_row + len(self.span.tokens)
        return range(end - self.n_judged, end)


class Filler:
    """Fills a batch of limited size, those that matter most first, and lays it out in the order of the slots."""

    def __init__(self, n_rows: int, n_outputs: int) -> None:
        self._parts: list[tuple[Slot, Session, Draft, int]] = []
        self._n_rows = n_rows
        self._n_outputs = n_outputs

    def add(self, slot: Slot, n_pending: int, draft: Draft) -> int:
        """Put up to `n_pending` tokens of a slot into the batch; a draft only behind all that is pending."""
        session = slot.session
        if session is None:
            return 0
        sequence, scoring = slot.sequence, session.scoring
        n = min(n_pending, self._n_rows, self._n_outputs if scoring else n_pending)
        complete = n == sequence.n_pending
        if n <= 0 or (complete and self._n_outputs == 0):
            return 0
        draft = draft.cut(self._n_rows - n) if complete else NO_DRAFT
        self._parts.append((slot, session, draft, n))
        self._n_rows -= n + len(draft.tokens)
        self._n_outputs -= n if scoring else _n_judged(slot, session, draft, n)
        return n

    def lay_out(self) -> list[Work]:
        """The batch, one span behind the other.

        Sequences that the library keeps apart are computed together only as far as their numbers rise by one.
        """
        row, work = 0, []
        for slot, session, draft, n in sorted(self._parts, key=lambda part: part[0].id):
            n_judged = _n_judged(slot, session, draft, n)
            tokens = [*slot.sequence.pending(n), *draft.tokens]
            span = Span(slot.id, slot.sequence.n_cached, tokens, n if session.scoring else n_judged, row)
            work.append(Work(slot, session, span, draft, n, n_judged))
            row += len(tokens)
        return work


def _n_judged(slot: Slot, session: Session, draft: Draft, n: int) -> int:
    """The rows that are sampled if `n` tokens and a draft are computed: none as long as something stays pending."""
    complete = n == slot.sequence.n_pending
    return 1 + len(draft.tokens) if complete and session.n_wanted != 0 else 0
