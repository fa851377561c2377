"""One answer being made: a request's choice from submission to its last token."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foretoken.backend import Sampler
from foretoken.cache.disk import Fetch
from foretoken.engine.text import TextStream
from foretoken.grammar.grammar import Grammar
from foretoken.ids import Ids, ids_of
from foretoken.types import Chunk, DrafterUsage, Event, Finish, FinishReason, Request, Step, Token, TokenInfo, Usage

Emit = Callable[[Event], None]


@dataclass(eq=False, slots=True)
class Session:
    """The state of one choice; lives in the queue, then in a slot."""

    request: Request
    choice: int
    prompt: list[Token]
    emit: Emit
    submitted: float = field(default_factory=time.perf_counter)
    text: TextStream = field(init=False)
    ids: Ids = field(init=False)
    """The prompt as an array."""
    grammar: Grammar | None = None
    sampler: Sampler | None = None
    fault: str | None = None
    """Why the answer could not go on, if that was the request's own doing."""
    fetch: Fetch | None = None
    """What is being read from disk for this prompt; it waits in the queue meanwhile."""
    stops: list[int] = field(default_factory=list)
    """Positions of the prompt, in order, at which reading stops for a moment so that the state there can be kept."""
    cancelled: bool = False
    n_cached: int = 0
    n_emitted: int = 0
    n_steps: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_replayed: int = 0
    n_rewinds: int = 0
    rewind_ms: float = 0.0
    saved_ms: float | None = None
    drafters: Mapping[str, DrafterUsage] = field(default_factory=dict)
    scored: list[TokenInfo] = field(default_factory=list)
    """The prompt's tokens with their probabilities, as far as they are known."""
    admitted: float | None = None
    answering: float | None = None
    """When the prompt had been read."""
    stepped: float | None = None
    """When the latest step's tokens were told."""

    def __post_init__(self) -> None:
        self.text = TextStream(self.request.stop)
        self.ids = ids_of(self.prompt)

    @property
    def prefilling(self) -> bool:
        """Whether the prompt is still being read."""
        return self.answering is None

    @property
    def scoring(self) -> bool:
        """Whether the prompt's own probabilities are wanted: then every row of it gets logits."""
        return self.prefilling and self.request.prompt_logprobs is not None

    @property
    def reads_logits(self) -> bool:
        """Whether a token's probability matters beside its being the best."""
        request = self.request
        return self.grammar is not None or request.logprobs is not None or request.prompt_logprobs is not None

    @property
    def fetching(self) -> bool:
        return self.fetch is not None and bool(self.fetch.pending)

    @property
    def may_reuse(self) -> bool:
        """Whether what was read before may serve this prompt."""
        return self.request.cache_prompt and self.request.prompt_logprobs is None

    @property
    def n_wanted(self) -> int | None:
        """How many more tokens may be emitted; None is no limit."""
        limit = self.request.max_tokens
        return None if limit is None else limit - self.n_emitted

    @property
    def end(self) -> FinishReason | None:
        """Why nothing is left to say, if so: a stop string came, the grammar is at its end, or a limit is reached."""
        if self.text.stopped_by is not None or (self.grammar is not None and self.grammar.complete):
            return "stop"
        return "length" if self.n_emitted == self.request.max_tokens else self.early_end

    @property
    def early_end(self) -> FinishReason | None:
        """Why the next token is not waited for, if it is not."""
        if self.cancelled:
            return "cancelled"
        limit = self.request.time_limit
        return "time" if limit is not None and time.perf_counter() - self.submitted > limit else None

    def deliver(self, infos: list[TokenInfo], text: str, step: Step | None = None) -> None:
        if infos or text:
            self.emit(Chunk(self.choice, text, tuple(infos), step))

    def finish(self, reason: FinishReason, error: str | None = None) -> None:
        """Hand out held back text and the closing event; the session is over after this."""
        self.deliver([], self.text.finish())
        if self.sampler is not None:
            self.sampler.close()
            self.sampler = None
        scored = tuple(self.scored)
        self.emit(Finish(self.choice, reason, self._usage(), self.text.stopped_by, error or self.fault, scored))

    def _usage(self) -> Usage:
        now = time.perf_counter()
        admitted = self.admitted or now
        answering = self.answering or now
        return Usage(
            prompt_tokens=len(self.prompt),
            cached_tokens=self.n_cached,
            completion_tokens=self.n_emitted,
            steps=self.n_steps,
            drafted=self.n_drafted,
            accepted=self.n_accepted,
            replayed=self.n_replayed,
            rewinds=self.n_rewinds,
            rewind_ms=self.rewind_ms,
            saved_ms=self.saved_ms,
            drafters=self.drafters,
            queue_ms=(admitted - self.submitted) * 1e3,
            prompt_ms=(answering - admitted) * 1e3,
            generation_ms=(now - answering) * 1e3,
        )
