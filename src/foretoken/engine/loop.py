"""The loop: admit, draft, fill, decode, verify, commit. One thread, no special cases."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from msgspec.structs import replace

from foretoken.aside import Aside
from foretoken.backend import Backend, Span
from foretoken.cache.archive import Archive
from foretoken.cache.cache import StateCache
from foretoken.config import EngineConfig
from foretoken.engine.batch import Work
from foretoken.engine.logprobs import logprobs
from foretoken.engine.scheduler import Scheduler
from foretoken.engine.session import Emit, Session
from foretoken.engine.slot import Slot
from foretoken.engine.totals import Totals
from foretoken.errors import DecodeError, GrammarError, QueueFull
from foretoken.grammar.grammar import Grammar, within
from foretoken.memory import Memory
from foretoken.memory.integrity import check_integrity
from foretoken.speculation.base import DraftAsk, Verdict
from foretoken.speculation.speculator import Speculator
from foretoken.speculation.verify import verify
from foretoken.types import MODEL, FinishReason, Request, SeqId, Step, Token, TokenInfo

log = logging.getLogger("foretoken.engine")


class Pieces(Protocol):
    """What the loop needs of a vocabulary."""

    @property
    def end_tokens(self) -> frozenset[Token]: ...
    def piece(self, token: Token) -> bytes: ...
    def text_piece(self, token: Token) -> bytes: ...


class Loop:
    """Answers sessions in slots, one batch per step; everything happens in the caller's thread."""

    def __init__(
        self,
        backend: Backend,
        memory: Memory,
        pieces: Pieces,
        speculator: Speculator,
        config: EngineConfig,
        archive: Archive | None = None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.backend = backend
        self.memory = memory
        self.pieces = pieces
        self.speculator = speculator
        self.config = config
        self.aside = Aside(backend.returns_early)
        self._told = told
        """Called when a step's events have been told."""
        self.cache = StateCache(memory, config.cache, archive)
        self.scheduler = Scheduler(memory, backend.n_sequences, self.cache, pieces.end_tokens)
        self.n_decodes = 0
        self.totals = Totals()
        self.width = 0
        """Rows of the batch under way."""
        self.depth = 0
        """Tokens up to the deepest of them."""
        self._said_in: dict[SeqId, int] = {}
        """The rows of the latest batch that chose the last token of each answer."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to compute: nobody is there, or whoever is waits for the disk."""
        return self.scheduler.idle and all(session.fetching for session in self.scheduler.queue)

    def submit(
        self, request: Request, prompt: list[Token], emit: Emit, grammar: Grammar | None = None, waited: float = 0.0
    ) -> list[Session]:
        """Queue every choice of a request, asked `waited` seconds ago; each follows the grammar, if any, on its own."""
        if len(self.scheduler.queue) + request.n > self.config.max_queue:
            raise QueueFull(f"{len(self.scheduler.queue)} requests are waiting; try again later")
        if not self.config.cache.reuse:
            request = replace(request, cache_prompt=False)
        grammars = [grammar and grammar.copy() for _ in range(request.n)]
        asked = time.perf_counter() - waited
        sessions = [Session(request, choice, prompt, emit, asked, own) for choice, own in enumerate(grammars)]
        self.scheduler.queue.extend(sessions)
        return sessions

    def step(self) -> bool:
        """Advance every slot by one batch; False when there is nothing to do."""
        computed = self._step()
        self.aside.do(self._told)
        if not computed or self.scheduler.idle:
            self.aside.catch_up()
        return computed

    def _step(self) -> bool:
        started = time.perf_counter()
        self._end_early()
        for slot in self.scheduler.admit():
            self._begin(slot)
        self.scheduler.share_prompts()
        self.scheduler.keep_states()
        work = self._fill()
        if not work:
            return False
        try:
            spans, rows, reading, self.depth = [], {}, False, 0
            for part in work:
                span = part.span
                spans.append(span)
                rows[span.seq] = len(span.tokens)
                reading = reading or part.session.prefilling
                self.depth = max(self.depth, span.start + len(span.tokens))
            self.width = sum(rows.values())
            self._said_in = {}
            computing_ms = self._decode(spans)
            self.aside.catch_up()
            self.n_decodes += 1
            self.speculator.read(spans)
            for part in work:
                self._settle(part)
            took = (time.perf_counter() - started) * 1e3
            self.totals.step_ms += took
            self.totals.slots += len(work)
            self.speculator.stepped(rows, took, reading, self.aside, computing_ms)
            self.cache.thrift.computed(self.width, took, reading)
        except DecodeError as error:
            self._fail(work, error)
        if self.config.check_integrity:
            check_integrity(self.backend, {slot.id: slot.sequence.n_cached for slot in self.scheduler.slots})
        return True

    def _decode(self, spans: Sequence[Span]) -> float | None:
        """Compute a batch; says how long that took, unless a device computes on while this returns."""
        started = time.perf_counter()
        self.backend.decode(spans)
        return None if self.backend.returns_early else (time.perf_counter() - started) * 1e3

    def abort(self, reason: str) -> None:
        """End every session with an error; for when the loop will not be stepped again."""
        for slot in self.scheduler.active:
            self._finish(slot, "error", reason)
        while self.scheduler.queue:
            self.scheduler.queue.popleft().finish("error", reason)

    def _begin(self, slot: Slot) -> None:
        session = slot.session
        assert session is not None
        session.admitted = time.perf_counter()
        params = session.request.sampling
        changes: dict[str, Any] = {}
        if session.request.ignore_eos:
            changes["banned"] = (*params.banned, *sorted(self.pieces.end_tokens))
        if params.infill and (session.request.ignore_eos or session.grammar is not None):
            # It may end an answer wherever it likes.
            changes["infill"] = False
        if params.seed is not None and session.choice:
            changes["seed"] = params.seed + session.choice
        if changes:
            params = replace(params, **changes)
        session.sampler = within(session.grammar, self.backend.sampler(params, session.prompt))
        self.backend.expect(slot.id, None if session.reads_logits else params.n_best)
        self._begin_speculation(slot, session)

    def _begin_speculation(self, slot: Slot, session: Session) -> None:
        request = session.request
        self.speculator.begin(slot.id, slot.sequence.tokens, request.owner, request.speculation.drafters)

    def _fill(self) -> list[Work]:
        turn = self.scheduler.turn(self.config.prefill_chunk)
        asks = [ask for slot in turn.generating if (ask := self._ask(slot)).n_max > 0]
        drafts = self.speculator.draft(asks) if asks else {}
        sizes = (self.backend.n_batch, self.backend.n_outputs, self.config.prefill_chunk)
        work = self.scheduler.fill(turn, drafts, *sizes)
        for part in work:
            if part.draft.tokens:
                self.memory.protect(part.slot.id, part.span.start, len(part.span.tokens))
        return work

    def _ask(self, slot: Slot) -> DraftAsk:
        """How much may be drafted: within the context, the request's limit, and what a cut would replay."""
        session, sequence = slot.session, slot.sequence
        assert session is not None
        wishes, n_wanted, n_pending = session.request.speculation, session.n_wanted, sequence.n_pending
        n_max = self.backend.n_ctx - len(sequence.tokens)
        for bound in (None if n_wanted is None else n_wanted - 1, wishes.n_max, self.memory.max_ahead):
            if bound is not None and bound < n_max:
                n_max = bound
        if n_pending > self.config.max_replay:
            n_max = 0
        row = self._said_in.get(slot.id)
        sure = None if row is None else partial(self.backend.certainty, row)
        return DraftAsk(slot.id, sequence.tokens, n_max, n_pending, wishes.n_min, wishes.p_min, session.grammar, sure)

    def _settle(self, part: Work) -> None:
        """Judge one slot's rows, emit what was decided, and take back what was drafted in vain."""
        slot, session, sequence, totals = part.slot, part.session, part.slot.sequence, self.totals
        if session.scoring:
            self._score(part)
        sequence.n_cached += part.n_certain
        session.n_steps += 1
        if session.prefilling:
            totals.read += part.n_certain
        else:
            session.n_replayed += part.n_certain - 1
            totals.replayed += part.n_certain - 1
        if part.n_judged == 0:
            if session.n_wanted == 0 and not sequence.n_pending:
                self._finish(slot, "length")
            return
        if session.prefilling:
            session.answering = time.perf_counter()
        n_said, n_accepted, reason = self._commit(part)
        n_drafted = len(part.draft.tokens)
        session.n_drafted += n_drafted
        session.n_accepted += n_accepted
        totals.emitted += n_said
        totals.drafted += n_drafted
        totals.accepted += n_accepted
        sequence.n_cached += n_accepted
        if n_accepted < n_drafted:
            self._rewind(slot, session)
        said = tuple(sequence.tokens[len(sequence.tokens) - n_said :])
        self.speculator.accept(slot.id, Verdict(part.draft, said, n_accepted))
        if reason is None and len(sequence.tokens) > self.backend.n_ctx:
            reason = self._make_room(slot, session)
        if reason is not None:
            self._finish(slot, reason)

    def _rewind(self, slot: Slot, session: Session) -> None:
        started = time.perf_counter()
        slot.sequence.n_cached = self.memory.rewind(slot.id, slot.sequence.n_cached)
        took = (time.perf_counter() - started) * 1e3
        session.n_rewinds += 1
        session.rewind_ms += took
        self.totals.rewinds += 1
        self.totals.rewind_ms += took

    def _commit(self, part: Work) -> tuple[int, int, FinishReason | None]:
        """Emit tokens as long as the model agrees with the draft and the answer goes on.

        Says how many, how many of them were guessed, and why the answer is over if it is.
        """
        session, sequence, draft = part.session, part.slot.sequence, part.draft
        assert session.sampler is not None
        infos: list[TokenInfo] = []
        text, n_accepted = "", 0
        reason: FinishReason | None = None
        try:
            for row, token in verify(session.sampler, part.judged, draft):
                # They are accepted in order: what was not guessed is the last.
                guessed = n_accepted < len(draft.tokens) and draft.tokens[n_accepted] == token
                n_accepted += guessed
                infos.append(self._info(session, row, token, draft.source if guessed else MODEL))
                sequence.tokens.append(token)
                self._said_in[part.slot.id] = row
                session.n_emitted += 1
                if token in self.pieces.end_tokens:
                    reason = "stop"
                    break
                text += session.text.push(infos[-1].piece)
                if (reason := session.end) is not None:
                    break
        except GrammarError as error:
            session.fault = str(error)
            reason = "invalid"
        self.aside.do(session.deliver, infos, text, self._account(part, n_accepted))
        return len(infos), n_accepted, reason

    def _account(self, part: Work, n_accepted: int) -> Step:
        """What this step was for one answer."""
        session, now = part.session, time.perf_counter()
        before = session.stepped or session.admitted or now
        replayed = 0 if session.stepped is None else part.n_certain - 1
        session.stepped = now
        draft = part.draft
        return Step(self.width, len(draft.tokens), n_accepted, replayed, (now - before) * 1e3, draft.source)

    def _score(self, part: Work) -> None:
        """Note how likely the prompt's tokens were, each from the row before it."""
        session, n_top = part.session, part.session.request.prompt_logprobs
        if part.span.start == 0:
            first = session.prompt[0]
            session.scored = [TokenInfo(first, self.pieces.text_piece(first))]
        for row, token in zip(part.span.outputs, session.prompt[part.span.start + 1 :], strict=False):
            chosen, top = logprobs(self.backend.logits(row), token, n_top or 0)
            session.scored.append(TokenInfo(token, self.pieces.text_piece(token), MODEL, chosen, top))

    def _info(self, session: Session, row: int, token: Token, origin: str) -> TokenInfo:
        piece = self.pieces.piece(token) if token in session.request.shown else self.pieces.text_piece(token)
        if session.request.logprobs is None:
            return TokenInfo(token, piece, origin)
        chosen, top = logprobs(self.backend.logits(row), token, session.request.logprobs)
        return TokenInfo(token, piece, origin, chosen, top)

    def _make_room(self, slot: Slot, session: Session) -> FinishReason | None:
        """The context is full: forget the older half where that was asked for and is possible."""
        if not (session.request.context_shift and self.backend.can_shift):
            return "context"
        keep = min(session.request.n_keep, self.backend.n_ctx // 2)
        gone = (self.backend.n_ctx - keep) // 2
        self.backend.remove(slot.id, keep, keep + gone)
        self.backend.shift(slot.id, keep + gone, -gone)
        del slot.sequence.tokens[keep : keep + gone]
        slot.sequence.n_cached -= gone
        slot.sequence.shifted = True
        # Drafters know a sequence only as growing: this is another one.
        self.speculator.end(slot.id)
        self._begin_speculation(slot, session)
        return None

    def _end_early(self) -> None:
        """Let go of sessions that were cancelled or ran out of time before their next token."""
        for slot in self.scheduler.slots:
            if slot.session is not None and (reason := slot.session.early_end):
                self._finish(slot, reason)
        if not self.scheduler.queue:
            return
        waiting = [(session, session.early_end) for session in self.scheduler.queue]
        if ended := [(session, reason) for session, reason in waiting if reason]:
            self.scheduler.drop(session for session, _ in ended)
            for session, reason in ended:
                session.finish(reason)

    def _finish(self, slot: Slot, reason: FinishReason, error: str | None = None) -> None:
        session, slot.session, slot.follows = slot.session, None, None
        assert session is not None
        self.aside.catch_up()
        session.saved_ms = self.speculator.planner.saved_ms(slot.id)
        session.drafters = self.speculator.end(slot.id)
        session.finish(reason, error)
        self.scheduler.finished(slot)

    def _fail(self, work: Sequence[Work], error: DecodeError) -> None:
        """A batch that could not be computed ends its sessions; what memory holds of them is unknown."""
        log.error("%s", error)
        for part in work:
            self.memory.release(part.slot.id)
            self.cache.unpin(part.slot.id)
            part.slot.sequence.n_cached = 0
            if part.slot.session is part.session:
                self._finish(part.slot, "error", str(error))
