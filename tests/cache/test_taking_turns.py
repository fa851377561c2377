"""Who stays when more texts come back than there is room for, simulated over the toy model."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest

from foretoken.cache.visits import Visit, Visits
from foretoken.config import CacheConfig
from foretoken.engine.loop import Loop
from foretoken.memory import Checkpoint, Memory, Trim
from foretoken.types import Request, Token
from tests import toy
from tests.cache.conversations import GREEDY, NoThrift, check_tree
from tests.engine.harness import ToyPieces, finish, make_loop, submit

END = 0
N_FIRST = 100
N_MORE = 8


def loop_with(kind: type[Memory], budget: int) -> Loop:
    """With room for so many bytes: a twentieth of what is allowed is not for them."""
    backend = toy.ToyBackend(2, recurrent=kind is not Trim, n_outputs=64, n_ctx=512)
    loop = make_loop(backend, kind(backend), ToyPieces(END), cache=CacheConfig(budget * 20 // 19, gap=8))
    loop.cache.thrift = NoThrift()
    return loop


@dataclass
class Talk:
    """A conversation that goes on whenever it is its turn."""

    seed: int
    system: list[Token] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)

    def go_on(self, loop: Loop) -> float:
        """How much of what an earlier turn had read was found."""
        rng = random.Random(f"{self.seed} {len(self.tokens)}")
        known = len(self.tokens)
        self.tokens += [] if known else self.system
        self.tokens += [rng.randrange(1, toy.N_VOCAB) for _ in range(N_MORE if known else N_FIRST)] + [END, 1]
        _, (answer,) = submit(loop, Request(list(self.tokens), GREEDY, max_tokens=4, ignore_eos=True))
        finish(loop)
        check_tree(loop.cache)
        assert answer.finish is not None
        self.tokens += answer.tokens
        return answer.finish.usage.cached_tokens / max(1, known)


def everything(kind: type[Memory], n_turns: int, system: list[Token]) -> int:
    """Bytes that eight conversations take when nothing has to go."""
    loop = loop_with(kind, 10**9)
    talks = [Talk(n, system) for n in range(8)]
    for _ in range(n_turns):
        for talk in talks:
            talk.go_on(loop)
    return loop.cache.n_bytes


@pytest.mark.parametrize("kind", [Trim, Checkpoint])
@pytest.mark.parametrize("shuffled", [False, True])
def test_a_quarter_of_the_memory_serves_a_quarter_of_the_turns(kind: type[Memory], shuffled: bool) -> None:
    n_turns = 8
    loop = loop_with(kind, everything(kind, n_turns, []) // 4)
    talks = [Talk(n) for n in range(8)]
    found = []
    for turn in range(n_turns):
        if shuffled:
            random.Random(turn).shuffle(talks)
        found += [talk.go_on(loop) for talk in talks]
    again = found[len(talks) :]
    assert sum(again) / len(again) >= 0.2


@pytest.mark.parametrize("kind", [Trim, Checkpoint])
@pytest.mark.parametrize("known", [False, True])
def test_who_comes_often_pushes_out_who_does_not_come_any_more(kind: type[Memory], known: bool) -> None:
    """Three that take turns in two slots, after eight that filled the memory; three of those, or new ones."""
    loop = loop_with(kind, everything(kind, 2, []) // 2)
    talks = [Talk(n) for n in range(8)]
    for _ in range(2):
        for talk in talks:
            talk.go_on(loop)
    three = talks[:3] if known else [Talk(n) for n in range(8, 11)]
    found = [talk.go_on(loop) for _ in range(6) for talk in three]
    assert min(found[6:]) > 0.8


@pytest.mark.parametrize("kind", [Trim, Checkpoint])
def test_what_all_begin_with_stays(kind: type[Memory]) -> None:
    system = [1 + n % 23 for n in range(100)] + [END]
    loop = loop_with(kind, everything(kind, 4, system) // 4)
    talks = [Talk(n, system) for n in range(8)]
    for talk in talks:
        talk.go_on(loop)
    for _ in range(3):
        for talk in talks:
            n_known = len(talk.tokens)
            assert talk.go_on(loop) * n_known >= len(system)


def test_a_text_that_goes_on_was_here_before() -> None:
    visits = Visits()
    text = np.arange(1, 50, dtype=np.int32)
    assert visits.enter("ann", text[:10]) is None
    assert visits.enter("ann", text[:20]) == Visit(10, 1)
    assert visits.enter("bob", text[:20]) is None, "nobody learns of others"
    assert visits.enter("ann", text) == Visit(20, 2)
    assert visits.enter("ann", text[:20]) == Visit(20, 2)
    assert visits.enter("ann", text[::-1].copy()) is None
    for n in range(1000):
        visits.enter("eve", np.array([n], np.int32))
    assert visits.enter("ann", text) is None, "forgotten by now"
