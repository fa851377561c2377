"""Random schedules over a memory, whatever backend is behind it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Backend, Span
from foretoken.memory import Memory
from foretoken.memory.integrity import check_integrity
from foretoken.types import SeqId, Token

Chain = Callable[[Sequence[Token], Sequence[int]], dict[int, NDArray[np.float32]]]
"""The logits of a fresh chain of tokens, decoded one at a time, after each of the given lengths."""


@dataclass
class _Life:
    """A sequence from its start: what it holds, and every row of logits seen on the way."""

    tokens: list[Token] = field(default_factory=list)
    n_cached: int = 0
    seen: list[tuple[int, NDArray[np.float32]]] = field(default_factory=list)


@dataclass
class Tally:
    """What a schedule did."""

    rows: int = 0
    rewinds: int = 0
    differing: int = 0
    worst: float = 0.0


class Schedule:
    """Drives sequences through chunks, drafts, cuts, rewinds, releases and clones, and compares every row."""

    def __init__(self, backend: Backend, memory: Memory, chain: Chain, rng: random.Random, n_ctx: int) -> None:
        self.backend = backend
        self.memory = memory
        self.chain = chain
        self.rng = rng
        self.n_ctx = n_ctx
        self.lives: dict[SeqId, _Life] = {seq: _Life() for seq in range(backend.n_sequences)}
        self.tally = Tally()

    def run(self, n_steps: int) -> Tally:
        for _ in range(n_steps):
            self._maintain()
            self._decode()
            check_integrity(self.backend, {seq: life.n_cached for seq, life in self.lives.items()})
        for seq in list(self.lives):
            self._end(seq)
        return self.tally

    def _maintain(self) -> None:
        """Between batches: cancel, go back for a shared prefix, clone, protect twice."""
        seq = self.rng.randrange(self.backend.n_sequences)
        life = self.lives[seq]
        action = self.rng.random()
        if action < 0.05 or len(life.tokens) > self.n_ctx - 40:
            self._end(seq)
        elif action < 0.12 and life.n_cached > 1:
            self._back_to_prefix(seq, self.rng.randrange(1, life.n_cached))
        elif action < 0.18:
            self._clone(seq)

    def _back_to_prefix(self, seq: SeqId, to: int) -> None:
        life = self.lives[seq]
        self._verify(life)
        reached = self.memory.rewind(seq, to)
        assert 0 <= reached <= to
        self.lives[seq] = _Life(life.tokens[:to], reached)

    def _clone(self, source: SeqId) -> None:
        life = self.lives[source]
        empty = [seq for seq, other in self.lives.items() if not other.tokens]
        if empty and life.n_cached:
            self.memory.clone(source, empty[0])
            self.lives[empty[0]] = _Life(life.tokens[: life.n_cached], life.n_cached)

    def _decode(self) -> None:
        everyone = list(self.lives)
        chosen = self.rng.sample(everyone, self.rng.randint(1, len(everyone)))
        spans: list[Span] = []
        drafts: dict[SeqId, int] = {}
        row = 0
        for seq in chosen:
            life = self.lives[seq]
            n_new = self.rng.choice((1, 1, 1, 2, 5, 17))
            life.tokens += self._random_tokens(max(n_new, 1 - len(life.tokens) + life.n_cached))
            pending = life.tokens[life.n_cached :]
            n_draft = self._draft_length()
            tokens = pending + self._random_tokens(n_draft)
            n_outputs = self.rng.choice((1 + n_draft, 1 + n_draft, 0)) if n_draft == 0 else 1 + n_draft
            if n_draft:
                for _ in range(self.rng.randint(1, 2)):
                    self.memory.protect(seq, life.n_cached, len(tokens))
            spans.append(Span(seq, life.n_cached, tokens, n_outputs, row))
            drafts[seq] = n_draft
            row += len(tokens)
        self.backend.decode(spans)
        for span in spans:
            self._settle(span, drafts[span.seq])

    def _draft_length(self) -> int:
        longest = 12 if self.memory.max_ahead is None else min(12, self.memory.max_ahead)
        return self.rng.randint(1, longest) if self.rng.random() < 0.6 else 0

    def _settle(self, span: Span, n_draft: int) -> None:
        life = self.lives[span.seq]
        n_certain = len(span.tokens) - n_draft
        n_accepted = self.rng.randint(0, n_draft)
        life.n_cached += n_certain
        for i, row in enumerate(span.outputs[: n_accepted + 1]):
            life.seen.append((life.n_cached + i, self.backend.logits(row).copy()))
        life.tokens += span.tokens[n_certain : n_certain + n_accepted]
        life.n_cached += n_accepted
        if n_accepted < n_draft:
            self.tally.rewinds += 1
            reached = self.memory.rewind(span.seq, life.n_cached)
            assert reached <= life.n_cached
            life.n_cached = reached

    def _end(self, seq: SeqId) -> None:
        self._verify(self.lives[seq])
        self.memory.release(seq)
        assert self.backend.length(seq) == 0
        assert not self.backend.held(seq)
        self.lives[seq] = _Life()

    def _verify(self, life: _Life) -> None:
        """Compare every row seen in a life with a fresh chain of the same tokens."""
        if not life.seen:
            return
        wanted = self.chain(life.tokens, [length for length, _ in life.seen])
        for length, found in life.seen:
            self.tally.rows += 1
            if not np.array_equal(found, wanted[length]):
                self.tally.differing += 1
                self.tally.worst = max(self.tally.worst, float(np.abs(found - wanted[length]).max()))
        life.seen.clear()

    def _random_tokens(self, n: int) -> list[Token]:
        return [self.rng.randrange(self.backend.n_vocab) for _ in range(n)]
