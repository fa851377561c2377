"""Random trees of conversations through a loop with a state tree, compared with a model that keeps nothing."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from foretoken.cache import files
from foretoken.cache.cache import StateCache
from foretoken.cache.thrift import Thrift
from foretoken.cache.tree import Node
from foretoken.engine.loop import Loop
from foretoken.types import Request, SamplingParams, Token
from tests.engine.harness import Answer, finish, submit

Oracle = Callable[[Sequence[Token], int], list[Token]]
"""What a model that never kept anything says after a prompt."""

GREEDY = SamplingParams(temperature=0)


class NoThrift(Thrift):
    """Keeps everything, however long it takes: so that a test does not depend on the clock."""

    affordable = True

    def pays(self, n_tokens: int, n_bytes: int, factor: float) -> bool:
        return True

    def spacing(self, n_bytes: int) -> int:
        return 0


@dataclass
class Tally:
    """What a schedule did."""

    turns: int = 0
    cached: int = 0
    prompted: int = 0
    did: Counter[str] = field(default_factory=Counter)
    """How often a conversation began, went on, was answered again, edited, forked, cancelled."""


@dataclass
class Talk:
    """One conversation: whose it is and how it stands."""

    owner: str
    tokens: list[Token]
    before_answer: int = 0


@dataclass
class Conversations:
    """Goes on, edits, regenerates, forks and cancels conversations of two owners."""

    loop: Loop
    oracle: Oracle
    rng: random.Random
    n_vocab: int
    end: Token
    n_ctx: int
    system: list[Token] = field(default_factory=list)
    talks: list[Talk] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)

    def run(self, n_rounds: int) -> Tally:
        self.system = self.system or self._message(20)
        for _ in range(n_rounds):
            self._round()
        return self.tally

    def _round(self) -> None:
        """A few requests at once, some of them cancelled on the way."""
        running: list[tuple[Talk, Request, Answer]] = []
        for _ in range(self.rng.randint(1, 3)):
            talk = self._next()
            request = Request(
                list(talk.tokens), GREEDY, max_tokens=self.rng.randint(1, 8), ignore_eos=self.rng.random() < 0.5,
                cache_prompt=self.rng.random() < 0.95, owner=talk.owner,
            )  # fmt: skip
            sessions, answers = submit(self.loop, request)
            running.append((talk, request, answers[0]))
            for _ in range(self.rng.randint(0, 6)):
                self._step()
            if self.rng.random() < 0.15:
                sessions[0].cancelled = True
                self.tally.did["cancel"] += 1
        while self._step() or self.loop.scheduler.queue:
            self.loop.cache.flush(10)  # Whoever waits for the disk need not wait any longer.
        finish(self.loop)
        for talk, request, answer in running:
            self._check(talk, request, answer)

    def _step(self) -> bool:
        more = self.loop.step()
        check_tree(self.loop.cache)
        return more

    def _check(self, talk: Talk, request: Request, answer: Answer) -> None:
        wanted = self.oracle(list(request.prompt), request.max_tokens or 0)
        if not request.ignore_eos:
            ends = [i for i, token in enumerate(wanted) if token == self.end]
            wanted = wanted[: ends[0] + 1] if ends else wanted
        if request.ignore_eos and self.end in wanted:
            wanted = answer.tokens  # The oracle does not know of banned tokens.
        if answer.reason == "cancelled":
            wanted = wanted[: len(answer.tokens)]
        assert answer.tokens == wanted, (request, answer)
        assert answer.finish is not None
        self.tally.turns += 1
        self.tally.cached += answer.finish.usage.cached_tokens
        self.tally.prompted += answer.finish.usage.prompt_tokens
        if not request.cache_prompt:
            assert answer.finish.usage.cached_tokens == 0
        talk.before_answer = len(talk.tokens)
        talk.tokens += answer.tokens

    def _next(self) -> Talk:
        """The conversation that goes on, and how."""
        fresh = Talk(self.rng.choice(("", "ann")), self.system + self._message())
        if not self.talks or self.rng.random() < 0.2:
            self.talks.append(fresh)
            self.tally.did["begin"] += 1
            return fresh
        talk = self.rng.choice(self.talks)
        if len(talk.tokens) > self.n_ctx - 40:
            done = "begin"
            talk.tokens = self.system + self._message()
        elif (action := self.rng.random()) < 0.5:
            done = "go on"
            talk.tokens += [self.end, *self._message()]
        elif action < 0.65 and talk.before_answer:
            done = "regenerate"
            del talk.tokens[talk.before_answer :]
        elif action < 0.8:
            done = "edit"
            del talk.tokens[self.rng.randrange(1, len(talk.tokens)) :]
            talk.tokens += self._message()
        else:
            done = "fork"
            talk = Talk(talk.owner, talk.tokens[: self.rng.randrange(1, len(talk.tokens))] + self._message())
            self.talks.append(talk)
        self.tally.did[done] += 1
        return talk

    def _message(self, n: int | None = None) -> list[Token]:
        n = n or self.rng.randint(1, 12)
        return [self.rng.randrange(1, self.n_vocab) for _ in range(n)] + [self.end]


def check_tree(cache: StateCache) -> None:
    """Raise unless the books agree with what is there, and the budget is kept."""
    n_bytes = 0
    n_token_bytes = 0
    n_file_bytes = 0
    buffers: set[int] = set()
    for tree in cache._kept.forest._trees.values():
        assert tree.root.children, "an owner without anything kept"
        for node in tree.root.below():
            _check_node(node)
            n_token_bytes += node.edge.nbytes
            for entry in node.parts.values():
                assert entry.node is node
                assert entry.data is not None or entry.file is not None
                assert cache.disk is not None or not entry.n_users
                n_file_bytes += entry.file is not None and files.file_size(node.position, entry.n_bytes)
                if entry.data is not None:
                    assert entry in cache.host
                    assert entry.data.base is None, "a view keeps more than it shows"
                    buffers.add(id(entry.data))
                    n_bytes += entry.data.nbytes
    if cache.disk is None:
        assert n_bytes == cache.host.n_bytes
        assert len(buffers) == len(cache.host)
        assert n_bytes + n_token_bytes == cache.n_bytes
    else:
        # Those being read have their place on the host already.
        assert n_bytes <= cache.host.n_bytes
        assert cache.disk.tier.n_bytes <= n_file_bytes
        assert cache.disk.n_bytes <= cache.disk.tier.budget
        folder = cache.disk.archive.folder
        assert sum(size for path in folder.glob("*.state*") if (size := _size(path))) <= cache.disk.tier.budget
    assert cache.n_bytes <= cache.host.budget


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def _check_node(node: Node) -> None:
    cells = node.parts.get("cells")
    assert node.n_sources == (cells is not None) + len(node.slots) + sum(c.n_sources for c in node.children.values())
    if node.parent is not None:
        assert node.position == node.parent.position + len(node.edge)
        assert node.parent.children[int(node.edge[0])] is node
        assert node.parts or node.slots or len(node.children) > 1, "a node that is nothing but a place in an edge"
    assert len(node.tokens) == node.position
    assert node.edge.dtype == np.int32
