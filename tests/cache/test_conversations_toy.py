"""The law of the state tree over a model whose state is a rolling hash: nothing kept ever changes an answer."""

from __future__ import annotations

import queue
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretoken.cache.archive import Archive
from foretoken.config import CacheConfig
from foretoken.memory import KINDS, Checkpoint, Memory, Ring, Trim
from foretoken.types import Token
from tests import toy
from tests.cache.conversations import Conversations, NoThrift, Tally
from tests.engine.harness import Adversary, ToyPieces, make_loop

END = 0


def oracle_for(recurrent: bool, attention: bool, window: int | None = None) -> object:
    def oracle(prompt: Sequence[Token], n: int) -> list[Token]:
        tokens = list(prompt)
        for _ in range(n):
            tokens.append(int(toy.expected(tokens, recurrent, attention, window).argmax()))
        return tokens[len(prompt) :]

    return oracle


def run(
    kind: type[Memory], seed: int, attention: bool = True, window: int | None = None, budget: int | None = None,
    n_rounds: int = 6,
) -> Tally:  # fmt: skip
    rng = random.Random(seed)
    recurrent = kind is not Trim
    n_slots = 1 if kind is Ring else rng.randint(1, 3)
    backend = toy.ToyBackend(
        n_slots, recurrent=recurrent, attention=attention, n_outputs=64, n_rollback=8 if kind is Ring else 0,
        unified=rng.random() < 0.5, window=window,
    )  # fmt: skip
    budget = rng.choice((300, 2000, 6000, 10**6)) if budget is None else budget
    cache = CacheConfig(budget, n_checkpoints=rng.choice((1, 3, 32)), gap=rng.choice((1, 4)))
    oracle = oracle_for(recurrent, attention, window)
    drafter = Adversary("half-right", seed, backend.n_vocab, oracle)
    loop = make_loop(backend, kind(backend), ToyPieces(END), [drafter], cache=cache)
    loop.cache.thrift = NoThrift()
    tally = Conversations(loop, oracle, rng, backend.n_vocab, END, backend.n_ctx).run(n_rounds)
    tally.did["evict"] += loop.cache.host.n_evicted
    return tally


def run_with_restarts(kind: type[Memory], seed: int, folder: Path) -> Tally:
    """The engine ends, politely or not, between rounds; another one with an empty memory takes over its folder."""
    rng = random.Random(seed)
    recurrent = kind is not Trim
    oracle = oracle_for(recurrent, attention=True)
    budgets = rng.choice(((3000, 10**6), (10**6, 6 * 4200), (10**6, 10**6)))
    cache = CacheConfig(budgets[0], budgets[1], gap=rng.choice((1, 4)))
    talks: Conversations | None = None
    tally = Tally()
    for _ in range(3):
        backend = toy.ToyBackend(rng.randint(1, 2), recurrent=recurrent, n_outputs=64)
        archive = Archive(folder, "toy")
        loop = make_loop(backend, kind(backend), ToyPieces(END), archive=archive, cache=cache)
        loop.cache.thrift = NoThrift()
        if talks is None:
            talks = Conversations(loop, oracle, rng, backend.n_vocab, END, backend.n_ctx)
        talks.loop = loop
        tally = talks.run(3)
        assert loop.cache.disk is not None
        tally.did["evict from disk"] += loop.cache.disk.tier.n_evicted
        tally.did["read from disk"] += loop.cache.disk.n_read
        if rng.random() < 0.5:
            tally.did["kill"] += 1
            kill(archive)
        loop.cache.close()
    return tally


def kill(archive: Archive) -> None:
    """What was not yet written never is, what was to go stays, and a file is left half written."""
    with suppress(queue.Empty):
        while True:
            archive._jobs.get_nowait()
    for whole in list(archive.folder.glob("*.state"))[:1]:
        whole.with_name(f"{whole.name}.1.tmp").write_bytes(whole.read_bytes()[:100])


CASES = [
    *((kind, True, window) for kind in KINDS.values() for window in (None, 10)),
    *((kind, False, None) for kind in KINDS.values() if kind is not Trim),
]


@pytest.mark.parametrize(("kind", "attention", "window"), CASES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_answers_are_those_of_a_model_that_keeps_nothing(
    kind: type[Memory], attention: bool, window: int | None, seed: int
) -> None:
    run(kind, seed, attention, window)


@pytest.mark.parametrize("kind", [Trim, Checkpoint])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_restart_changes_no_answer(kind: type[Memory], seed: int) -> None:
    with TemporaryDirectory() as folder:
        run_with_restarts(kind, seed, Path(folder))


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind is not Ring])
def test_most_of_what_was_read_is_not_read_again(kind: type[Memory]) -> None:
    """Reuse really happens: far more than without a tree, and with a large budget nearly everything."""
    tallies = [run(kind, seed, budget=10**6, n_rounds=12) for seed in range(12)]
    kept = sum(t.cached for t in tallies) / sum(t.prompted for t in tallies)
    without = [run(kind, seed, budget=0, n_rounds=12) for seed in range(12)]
    assert kept > 0.5
    assert kept > 1.2 * sum(t.cached for t in without) / sum(t.prompted for t in without)


def test_the_schedules_do_all_that_they_are_made_for() -> None:
    did: Counter[str] = Counter()
    for seed in range(10):
        did += run(Checkpoint, seed, n_rounds=12).did
        with TemporaryDirectory() as folder:
            did += run_with_restarts(Checkpoint, seed, Path(folder)).did
    words = {
        "begin",
        "go on",
        "regenerate",
        "edit",
        "fork",
        "cancel",
        "evict",
        "evict from disk",
        "read from disk",
        "kill",
    }
    assert {word for word in words if did[word] >= 5} == words, did
