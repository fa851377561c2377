"""Running a loop to its end, with drafters that try to break it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from foretoken.backend import Backend
from foretoken.cache.archive import Archive
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.loop import Loop
from foretoken.engine.session import Session
from foretoken.memory import Memory
from foretoken.speculation.base import Draft, DraftAsk, Drafter, Verdict
from foretoken.speculation.planner import FixedPlanner
from foretoken.speculation.speculator import Speculator
from foretoken.types import Chunk, Event, Finish, Request, SeqId, Token

Oracle = Callable[[Sequence[Token], int], list[Token]]
"""What the model will say next after these tokens."""


@dataclass
class Answer:
    """What came back for one choice."""

    tokens: list[Token] = field(default_factory=list)
    text: str = ""
    finish: Finish | None = None

    def take(self, event: Event) -> None:
        if isinstance(event, Chunk):
            assert self.finish is None, "text after the end"
            self.tokens += [info.id for info in event.tokens]
            self.text += event.text
        else:
            assert self.finish is None, "a second end"
            self.finish = event

    @property
    def reason(self) -> str:
        assert self.finish is not None, "never finished"
        return self.finish.reason


class ToyPieces:
    """A vocabulary in which every token is a letter, and one of them ends the answer."""

    def __init__(self, end: Token | None = 0) -> None:
        self.end_tokens = frozenset() if end is None else frozenset({end})

    def piece(self, token: Token) -> bytes:
        return self.text_piece(token)

    def text_piece(self, token: Token) -> bytes:
        return bytes([97 + token % 26])


class Adversary:
    """A drafter that is wrong in one particular way."""

    def __init__(self, kind: str, seed: int, n_vocab: int, oracle: Oracle | None = None) -> None:
        self.name = kind
        self.rng = random.Random(seed)
        self.n_vocab = n_vocab
        self.oracle = oracle

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        pass

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        return [self._one(ask) for ask in asks]

    def _one(self, ask: DraftAsk) -> Draft:
        if self.name == "raising" and self.rng.random() < 0.3:
            raise RuntimeError("drafters fail")
        if self.name == "empty":
            return Draft()
        n = self.rng.randint(0, 12) if self.name != "over-long" else ask.n_max + 50
        tokens = [self.rng.randrange(self.n_vocab) for _ in range(n)]
        if self.name == "out-of-range" and tokens:
            tokens[self.rng.randrange(n)] = self.rng.choice((-1, self.n_vocab, 10**9))
        if self.oracle and self.name in ("right", "half-right"):
            right = self.oracle(ask.tokens, min(n, ask.n_max))
            keep = len(right) if self.name == "right" else self.rng.randint(0, len(right))
            tokens[:keep] = right[:keep]
        return Draft(tuple(tokens), (0.9,) * len(tokens), self.name)

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        if self.name == "raising" and self.rng.random() < 0.3:
            raise RuntimeError("drafters fail here too")

    def end(self, seq: SeqId) -> None:
        pass


ADVERSARIES = ("random", "right", "half-right", "over-long", "empty", "raising", "out-of-range")


def make_loop(
    backend: Backend,
    memory: Memory,
    pieces: object,
    drafters: Sequence[Drafter] = (),
    archive: Archive | None = None,
    told: Callable[[], object] = lambda: None,
    **settings: object,
) -> Loop:
    config = EngineConfig(ModelConfig(Path("none")), **{"prefill_chunk": 7, "check_integrity": True, **settings})
    speculator = Speculator(drafters, FixedPlanner(n_max=16), backend.n_vocab, pieces.end_tokens)
    return Loop(backend, memory, pieces, speculator, config, archive, told)


def submit(loop: Loop, request: Request) -> tuple[list[Session], list[Answer]]:
    answers = [Answer() for _ in range(request.n)]
    sessions = loop.submit(request, list(request.prompt), lambda event: answers[event.choice].take(event))
    return sessions, answers


def finish(loop: Loop, max_steps: int = 20000) -> int:
    """Step until there is nothing left to do; returns how many steps that took."""
    for n in range(max_steps):
        if not loop.step():
            assert loop.idle, "the loop stopped with work left"
            return n
    raise AssertionError("the loop does not end")


def alone(make: Callable[[], Loop], request: Request) -> list[Answer]:
    """The plain answer to a request: a fresh loop, nobody else, no drafts."""
    loop = make()
    _, answers = submit(loop, request)
    finish(loop)
    return answers
