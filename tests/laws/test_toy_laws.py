"""The laws of every memory, over the toy backend: tens of thousands of random schedules."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.errors import IntegrityError
from foretoken.memory import KINDS, Checkpoint, Fork, HostCheckpoint, Memory, Ring, Trim
from foretoken.memory.integrity import check_integrity
from tests import toy
from tests.laws.schedule import Schedule, Tally

RECURRENT = (Fork, Checkpoint, HostCheckpoint)


def run(kind: type[Memory], seed: int, n_sequences: int, n_steps: int, attention: bool = True) -> Tally:
    recurrent = kind is not Trim
    backend = toy.ToyBackend(
        n_sequences, recurrent=recurrent, attention=attention, n_batch=1024, n_outputs=512,
        n_rollback=8 if kind is Ring else 0,
    )  # fmt: skip

    def chain(tokens: Sequence[int], lengths: Sequence[int]) -> dict[int, NDArray[np.float32]]:
        return {n: toy.expected(tokens[:n], recurrent, attention) for n in lengths}

    return Schedule(backend, kind(backend), chain, random.Random(seed), backend.n_ctx).run(n_steps)


# A model has attention, a state, or both: trim is for the first alone.
@pytest.mark.parametrize(
    ("kind", "attention"),
    [(kind, attention) for kind in KINDS.values() for attention in (True, False) if attention or kind is not Trim],
)
def test_rewind_then_decode_equals_a_fresh_decode(kind: type[Memory], attention: bool) -> None:
    rewinds = 0
    for seed in range(2500):
        tally = run(kind, seed, 1 if kind is Ring else 1 + seed % 4, n_steps=6, attention=attention)
        assert tally.differing == 0, f"seed {seed}: {tally}"
        rewinds += tally.rewinds
    assert rewinds > 2500


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind is not Ring], ids=lambda k: k.name)
@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), n_sequences=st.integers(1, 4), n_steps=st.integers(1, 40))
def test_long_schedules(kind: type[Memory], seed: int, n_sequences: int, n_steps: int) -> None:
    assert run(kind, seed, n_sequences, n_steps).differing == 0


@pytest.mark.parametrize("kind", RECURRENT)
def test_a_checkpoint_reaches_the_protected_position_and_no_other(kind: type[Memory]) -> None:
    backend = toy.ToyBackend(2)
    memory = kind(backend)
    backend.decode([Span(0, 0, [1, 2, 3], 0, 0)])
    memory.protect(0, 3, 4)
    backend.decode([Span(0, 3, [4, 5, 6, 7], 0, 0)])
    assert memory.reach(0, 5) == 3
    assert memory.rewind(0, 5) == 3
    backend.decode([Span(0, 3, [4, 5], 0, 0)])
    assert memory.rewind(0, 4) == 3, "the same protection serves until it is moved"
    assert memory.rewind(0, 2) == 0, "nothing was kept that far back"
    assert backend.length(0) == 0


@pytest.mark.parametrize("kind", RECURRENT)
def test_protecting_a_position_where_the_sequence_does_not_stand_is_refused(kind: type[Memory]) -> None:
    backend = toy.ToyBackend(2)
    backend.decode([Span(0, 0, [1, 2, 3], 0, 0)])
    with pytest.raises(IntegrityError, match="stands at 3, not at 2"):
        kind(backend).protect(0, 2, 1)


def test_integrity_sees_what_the_seeds_bug_leaves_behind() -> None:
    """Restoring a state without removing the attention cells beyond it holds positions twice."""
    backend = toy.ToyBackend(1)
    backend.decode([Span(0, 0, [1, 2, 3], 0, 0)])
    backend.share_state(0, 1)
    backend.decode([Span(0, 3, [4, 5], 0, 0)])
    backend.share_state(1, 0)
    backend.decode([Span(0, 3, [6], 0, 0)])
    with pytest.raises(IntegrityError, match=r"twice \[3\].*beyond the end \[4\]"):
        check_integrity(backend, {0: 4})
