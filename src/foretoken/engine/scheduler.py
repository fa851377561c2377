"""Who gets a slot, and what goes into the next batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from foretoken.backend import Span
from foretoken.engine.session import Session
from foretoken.engine.slot import Slot
from foretoken.memory import Memory
from foretoken.speculation.base import NO_DRAFT, Draft
from foretoken.types import SeqId


@dataclass(frozen=True, slots=True)
class Work:
    """One slot's part of a batch: pending tokens, then the draft that will be judged."""

    slot: Slot
    session: Session
    span: Span
    draft: Draft
    n_judged: int
    """Rows at the end whose tokens are sampled: one, and one per drafted token; none while a prompt is read."""

    @property
    def judged(self) -> range:
        """The batch rows to sample from."""
        return self.span.outputs[self.span.n_outputs - self.n_judged :]

    @property
    def n_certain(self) -> int:
        """Rows that will stay whatever the verdict."""
        return len(self.span.tokens) - len(self.draft)


class Scheduler:
    """Keeps the queue and the slots; touches memory only to make a slot ready for a session."""

    def __init__(self, memory: Memory, n_slots: int) -> None:
        self.memory = memory
        self.slots = [Slot(seq) for seq in range(n_slots)]
        self.queue: deque[Session] = deque()
        self._clock = 0

    @property
    def active(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.session is not None]

    def admit(self) -> list[Slot]:
        """Give free slots to waiting sessions, first come first served; returns the slots just taken."""
        taken = []
        while self.queue and (free := [slot for slot in self.slots if slot.free]):
            session = self.queue.popleft()
            slot = self._best(free, session)
            self._prepare(slot, session)
            taken.append(slot)
        return taken

    def _best(self, free: Sequence[Slot], session: Session) -> Slot:
        """The slot that saves the most work, then the one unused for longest."""
        return max(free, key=lambda slot: (self._reusable(slot, session), -slot.last_used))

    def _reusable(self, slot: Slot, session: Session) -> int:
        """How many tokens of the prompt the slot's memory would still hold after a rewind."""
        request = session.request
        if not request.cache_prompt or request.prompt_logprobs is not None or slot.owner != request.owner:
            return 0
        # The last token of a prompt is always decoded: its logits are wanted.
        shared = min(slot.sequence.shared_prefix(session.prompt), len(session.prompt) - 1)
        if shared <= 0 or shared == slot.sequence.n_cached:
            return shared
        return self.memory.reach(slot.id, shared)

    def _prepare(self, slot: Slot, session: Session) -> None:
        self._clock += 1
        slot.last_used = self._clock
        slot.leader = self._reading_same_prompt(session)
        slot.sequence.n_cached = self.memory.rewind(slot.id, self._reusable(slot, session))
        slot.sequence.tokens = list(session.prompt)
        session.n_cached = slot.sequence.n_cached
        slot.session = session
        slot.owner = session.request.owner

    def _reading_same_prompt(self, session: Session) -> Slot | None:
        if session.scoring:
            return None
        for slot in self.active:
            other = slot.session
            if other and other.request is session.request and other.prefilling and slot.leader is None:
                return slot
        return None

    def share_prompts(self) -> None:
        """Let followers take over the memory of a leader that has read all of the prompt but its end."""
        for slot in self.active:
            leader, session = slot.leader, slot.session
            if leader is None or session is None:
                continue
            other = leader.session
            if other is None or other.request is not session.request or not other.prefilling:
                slot.leader = None
            elif leader.sequence.n_cached == len(session.prompt) - 1:
                slot.leader = None
                if leader.sequence.n_cached > slot.sequence.n_cached:
                    self.memory.clone(leader.id, slot.id)
                    session.n_cached = slot.sequence.n_cached = leader.sequence.n_cached

    def fill(self, drafts: Mapping[SeqId, Draft], n_batch: int, n_outputs: int, prefill_chunk: int) -> list[Work]:
        """The next batch: every generating slot first, then as much of the prompts as may be."""
        ready = [slot for slot in self.active if slot.leader is None]
        generating = [slot for slot in ready if slot.session and not slot.session.prefilling]
        reading = sorted(
            (slot for slot in ready if slot.session and slot.session.prefilling),
            key=lambda slot: slot.last_used,
        )
        filler = _Filler(n_batch, n_outputs)
        # Drafts may use only what every slot's certain rows leave over.
        spare = n_batch - sum(slot.sequence.n_pending for slot in generating)
        spare_outputs = n_outputs - len(ready)
        for slot in generating:
            draft = drafts.get(slot.id, NO_DRAFT).cut(max(0, min(spare, spare_outputs)))
            spare, spare_outputs = spare - len(draft), spare_outputs - len(draft)
            filler.add(slot, slot.sequence.n_pending, draft)
        budget = prefill_chunk if generating else n_batch
        for slot in reading:
            budget -= filler.add(slot, min(budget, self._readable(slot)), NO_DRAFT)
        return filler.work

    def _readable(self, slot: Slot) -> int:
        """Pending tokens a slot may read now: a leader stops before the end until its followers have theirs."""
        held_back = any(other.leader is slot for other in self.active)
        return slot.sequence.n_pending - (1 if held_back else 0)

    def drop(self, gone: Iterable[Session]) -> None:
        """Take sessions out of the queue."""
        leaving = {id(session) for session in gone}
        self.queue = deque(session for session in self.queue if id(session) not in leaving)


class _Filler:
    """Lays spans one after another into a batch of limited size."""

    def __init__(self, n_rows: int, n_outputs: int) -> None:
        self.work: list[Work] = []
        self._row = 0
        self._n_rows = n_rows
        self._n_outputs = n_outputs

    def add(self, slot: Slot, n_pending: int, draft: Draft) -> int:
        """Put up to `n_pending` tokens of a slot into the batch; a draft only behind all that is pending."""
        session = slot.session
        if session is None:
            return 0
        n = min(n_pending, self._n_rows - self._row, *([self._n_outputs] if session.scoring else []))
        complete = n == slot.sequence.n_pending
        if n <= 0 or (complete and self._n_outputs == 0):
            return 0
        draft = draft.cut(self._n_rows - self._row - n) if complete else NO_DRAFT
        n_judged = 1 + len(draft) if complete and session.n_wanted != 0 else 0
        n_outputs = n if session.scoring else n_judged
        tokens = slot.sequence.pending(n) + list(draft.tokens)
        span = Span(slot.id, slot.sequence.n_cached, tokens, n_outputs, self._row)
        self.work.append(Work(slot, session, span, draft, n_judged))
        self._row += len(tokens)
        self._n_outputs -= n_outputs
        return n
