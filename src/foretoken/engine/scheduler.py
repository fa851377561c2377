"""Who gets a slot, and what goes into the next batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from foretoken.backend import Part
from foretoken.cache.anchors import message_ends
from foretoken.cache.cache import StateCache
from foretoken.cache.find import Reuse
from foretoken.cache.tree import Bytes, Match
from foretoken.engine.batch import Filler, Work
from foretoken.engine.sequence import Sequence as Tokens
from foretoken.engine.sequence import n_shared
from foretoken.engine.session import Session
from foretoken.engine.slot import Following, Slot
from foretoken.errors import DecodeError
from foretoken.memory import Memory
from foretoken.speculation.base import NO_DRAFT, Draft
from foretoken.types import SeqId, Token


class Turn(NamedTuple):
    """The slots of one batch."""

    generating: list[Slot]
    reading: list[Slot]


class Scheduler:
    """Keeps the queue and the slots; touches memory only to make a slot ready for a session."""

    def __init__(self, memory: Memory, n_slots: int, cache: StateCache, end_tokens: frozenset[Token]) -> None:
        self.memory = memory
        self.cache = cache
        self.slots = [Slot(seq) for seq in range(n_slots)]
        self.queue: deque[Session] = deque()
        self._end_tokens = end_tokens
        self._clock = 0
        self._read_alone = False
        """Whether the latest batch left out those that generate."""

    @property
    def active(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.session is not None]

    @property
    def idle(self) -> bool:
        """Whether no slot is in use."""
        return all(slot.session is None for slot in self.slots)

    def admit(self) -> list[Slot]:
        """Give free slots to waiting sessions, first come first served; returns the slots just taken."""
        self.cache.collect()
        taken = []
        for session in list(self.queue):
            free = [slot for slot in self.slots if slot.free]
            if not free:
                break
            if session.fetching:
                continue
            slot, reuse, match = self._choose(free, session)
            if match is not None and session.fetch is None:
                session.fetch = self.cache.fetch(match, len(session.prompt) - 1, reuse.position)
                if session.fetching:
                    continue
            self.queue.remove(session)
            self._prepare(slot, session, reuse)
            taken.append(slot)
        return taken

    def _choose(self, free: Sequence[Slot], session: Session) -> tuple[Slot, Reuse, Match | None]:
        """The slot that saves the most work, then the one that fits best; and what its memory can start from."""
        fitting = self._best_fitting(free)
        if not session.may_reuse:
            return fitting[0], Reuse(0), None
        # The last token of a prompt is always decoded: its logits are wanted.
        limit = len(session.prompt) - 1
        match = self.cache.match(session.request.owner, session.ids[:limit])
        options = [(slot, self._own(slot, session, match, limit)) for slot in fitting]
        slot, own = max(options, key=lambda option: option[1].position)
        other = self.cache.best(match, limit)
        if own.position >= other.position:
            return slot, own, match
        return fitting[0], other, match

    def _best_fitting(self, free: Sequence[Slot]) -> list[Slot]:
        """Slots next to those at work first, then those unused for longest.

        Where every slot has cells of its own, slots 0, 1 and 2 are computed at once, but 0, 1 and 3 in two parts.
        """
        busy = {slot.id for slot in self.slots if not slot.free}

        def unfitness(slot: Slot) -> tuple[int, int]:
            together = {slot.id, *busy}
            n_parts = 1 if self.memory.backend.unified else sum(seq - 1 not in together for seq in together)
            return n_parts, slot.last_used

        return sorted(free, key=unfitness)

    def _own(self, slot: Slot, session: Session, match: Match, limit: int) -> Reuse:
        """What a slot's own memory can go back to: where it stands, what it protects, or a state kept of its text."""
        if slot.owner != session.request.owner:
            return Reuse(0)
        shared = min(slot.sequence.shared_prefix(session.prompt), limit)
        if shared <= 0 or shared == slot.sequence.n_cached:
            return Reuse(shared, slot=slot.id)
        own = Reuse(self.memory.reach(slot.id, shared), slot=slot.id)
        kept = self.cache.state_within(match, shared)
        best = own if own.position >= kept.position else replace(kept, slot=slot.id)
        return best if best.position >= self.memory.backend.floor(slot.id) else Reuse(0)

    def _prepare(self, slot: Slot, session: Session, reuse: Reuse) -> None:
        self._clock += 1
        slot.last_used = self._clock
        with reuse.in_use():
            self._let_go(slot, reuse)
            if session.may_reuse:
                self.cache.visit(slot.id, session.request.owner, session.ids, reuse.position)
            if reuse.entries or reuse.slot not in (None, slot.id):
                n_cached = self.cache.apply(slot.id, reuse)
            else:
                n_cached = self.memory.rewind(slot.id, reuse.position)
        slot.sequence = Tokens(list(session.prompt), n_cached)
        slot.session, slot.owner = session, session.request.owner
        slot.keeps, slot.kept = session.may_reuse, True
        session.n_cached = n_cached
        if slot.keeps:
            self.cache.pin(slot.id, slot.owner, session.ids[:n_cached])
            ends = message_ends(session.prompt, self._end_tokens)
            session.stops = self.cache.anchors(ends, n_cached, len(session.prompt))
        else:
            self.cache.unpin(slot.id)
        self._follow(slot, session)

    def _let_go(self, slot: Slot, reuse: Reuse) -> None:
        """Keep what the slot held, if the next session takes it away."""
        sequence = slot.sequence
        stays = reuse.position if reuse.slot == slot.id else 0
        if slot.keeps and sequence.n_cached - stays >= self.cache.config.gap:
            self.cache.keep_all(slot.id, slot.owner, sequence.held, others_wait=len(self.active) > 0)
        self.cache.unpin(slot.id)

    def finished(self, slot: Slot) -> None:
        """A slot is free; what it holds can serve others."""
        self.cache.pin(slot.id, slot.owner, slot.sequence.held if slot.keeps else [])
        slot.kept = not slot.keeps or self.cache.disk is None
        self._persist(slot)

    def load(self, slot: Slot, owner: str, tokens: list[Token], parts: Mapping[Part, Bytes]) -> None:
        """Let a free slot hold a text that was copied out before."""
        self._let_go(slot, Reuse(0))
        self._clock += 1
        slot.sequence, slot.last_used = Tokens(), self._clock
        self.memory.release(slot.id)
        try:
            self.memory.adopt(slot.id, len(tokens), parts.get("cells"), parts.get("state"))
        except DecodeError:
            self.erase(slot)
            raise
        slot.sequence, slot.owner, slot.keeps = Tokens(tokens, len(tokens)), owner, True
        self.finished(slot)

    def erase(self, slot: Slot) -> None:
        """Let a free slot hold nothing."""
        self.memory.release(slot.id)
        self.cache.unpin(slot.id)
        slot.sequence, slot.keeps = Tokens(), False

    def _persist(self, slot: Slot) -> None:
        """Copy what a free slot holds to where it survives a restart, as soon as there is time."""
        if not slot.kept:
            slot.kept = self.cache.keep_all(slot.id, slot.owner, slot.sequence.held, others_wait=bool(self.active))

    def _follow(self, slot: Slot, session: Session) -> None:
        """Wait for whoever reads the longest part of this prompt anyway, if that is worth waiting for."""
        slot.follows = None
        if session.scoring:
            return
        options = [found for other in self.active if (found := self._common(other, slot, session))]
        if not options:
            return
        slot.follows = max(options, key=lambda following: following.position)
        if slot.follows.session.request is not session.request:
            # Where prompts part, others will part too.
            at = slot.follows.position
            session.stops = [at, *(stop for stop in session.stops if stop - at >= self.cache.config.gap)]

    def _common(self, other: Slot, slot: Slot, session: Session) -> Following | None:
        """How far another slot will read the same tokens."""
        leader = other.session
        if other is slot or leader is None or not leader.prefilling or other.follows is not None:
            return None
        limit = min(len(leader.prompt), len(session.prompt)) - 1
        if leader.request is session.request:
            return Following(other, leader, limit)
        if not (session.may_reuse and leader.may_reuse) or other.owner != session.request.owner:
            return None
        position = n_shared(leader.prompt, session.prompt, limit)
        if position < other.sequence.n_cached or position - slot.sequence.n_cached < self.cache.config.gap:
            return None
        return Following(other, leader, position)

    def share_prompts(self) -> None:
        """Let followers take over the memory of a leader that has read as far as their prompts agree."""
        for slot in self.slots:
            follows, session = slot.follows, slot.session
            if follows is None or session is None:
                continue
            leader = follows.slot
            reading = leader.session is follows.session and follows.session.prefilling
            if reading and leader.sequence.n_cached < follows.position:
                continue
            slot.follows = None
            # A leader that was cancelled on the way has still read a part.
            there = reading or leader.session is None
            if there and slot.sequence.n_cached < leader.sequence.n_cached <= follows.position:
                self.memory.clone(leader.id, slot.id)
                session.n_cached = slot.sequence.n_cached = leader.sequence.n_cached

    def keep_states(self) -> None:
        """Keep the state of every slot that stands where it will be wanted again."""
        for slot in self.slots:
            session, sequence = slot.session, slot.sequence
            if session is None:
                self._persist(slot)
            if session is None or slot.follows is not None:
                continue
            while session.stops and session.stops[0] <= sequence.n_cached:
                if session.stops.pop(0) == sequence.n_cached:
                    last = not session.stops
                    self.cache.keep_state(slot.id, slot.owner, sequence.held, likely=last)

    def turn(self, prefill_chunk: int) -> Turn:
        """The slots of the next batch: all that are not waiting, or only those that read a short prompt.

        Sequences that the library keeps apart are computed in passes of equal lengths. Beside a prompt those that
        generate need a pass of their own, with a row each; one step later they share it with the prompt's slot. Their
        next token comes as soon, and every other step is theirs.
        """
        generating, reading, n_to_read = [], [], 0
        for slot in self.slots:
            session = slot.session
            if session is None or slot.follows is not None:
                continue
            if session.prefilling:
                reading.append(slot)
                n_to_read += len(session.prompt) - session.n_cached
            else:
                generating.append(slot)
        backend = self.memory.backend
        self._read_alone = (
            bool(reading and generating)
            and not self._read_alone
            and n_to_read <= prefill_chunk
            and (backend.recurrent or not backend.unified)
        )
        return Turn([] if self._read_alone else generating, reading)

    def fill(
        self, turn: Turn, drafts: Mapping[SeqId, Draft], n_batch: int, n_outputs: int, prefill_chunk: int
    ) -> list[Work]:
        """The next batch of these slots: every generating one first, then as much of the prompts as may be."""
        generating, reading = turn
        filler = Filler(n_batch, n_outputs)
        if drafts:
            # They may use only what every slot's certain rows leave over.
            n_spare = n_batch - sum(slot.sequence.n_pending for slot in generating)
            n_spare = max(0, min(n_spare, n_outputs - len(generating) - len(reading)))
        for slot in generating:
            draft = drafts.get(slot.id, NO_DRAFT)
            if draft.tokens:
                draft = draft.cut(n_spare)
                n_spare -= len(draft.tokens)
            filler.add(slot, slot.sequence.n_pending, draft)
        budget = prefill_chunk if generating else n_batch
        for slot in sorted(reading, key=lambda slot: slot.last_used):
            budget -= filler.add(slot, min(budget, self._readable(slot)), NO_DRAFT)
        return filler.lay_out()

    def _readable(self, slot: Slot) -> int:
        """Pending tokens a slot may read now: it stops where its state is to be kept or its followers wait."""
        stops = [*(slot.session.stops if slot.session else ())]
        stops += [other.follows.position for other in self.active if other.follows and other.follows.slot is slot]
        n_cached = slot.sequence.n_cached
        end = min((stop for stop in stops if stop > n_cached), default=len(slot.sequence.tokens))
        return min(slot.sequence.n_pending, end - n_cached)

    def drop(self, gone: Iterable[Session]) -> None:
        """Take sessions out of the queue."""
        leaving = {id(session) for session in gone}
        self.queue = deque(session for session in self.queue if id(session) not in leaving)
