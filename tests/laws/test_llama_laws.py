"""The laws of every memory on libllama itself: bit-identical logits in thousands of random schedules."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.memory import KINDS, Checkpoint, Fork, HostCheckpoint, Memory, Ring, Trim
from tests.conftest import TinyModel
from tests.laws.schedule import Schedule, Tally
from tests.tiny.architectures import CATALOGUE

N_CTX = 512
EXACT = ContextConfig(
    n_ctx=N_CTX, n_batch=512, n_ubatch=256, n_threads=1, flash_attention="on", kv_type_k="q8_0", kv_type_v="f16"
)  # fmt: skip
N_ROLLBACK = 8

STATEFUL = [name for name, arch in CATALOGUE.items() if arch.memory != "attention"]
ATTENTION_ONLY = [name for name, arch in CATALOGUE.items() if arch.memory == "attention"]
RING = ["qwen35", "qwen35moe", "lfm2"]
"""Architectures on which libllama keeps states inside the graph; on others it silently keeps none."""

CASES = (
    [(arch, Trim, n) for arch in ATTENTION_ONLY for n in (1, 4)]
    + [(arch, Fork, 1) for arch in STATEFUL]
    + [(arch, kind, n) for arch in STATEFUL for kind in (Checkpoint, HostCheckpoint) for n in (1, 4)]
    + [(arch, Ring, 1) for arch in RING]
)


def config_for(kind: type[Memory], n_sequences: int) -> ContextConfig:
    needs = kind.needs(n_sequences, N_ROLLBACK)
    return replace(
        EXACT,
        n_sequences=n_sequences,
        unified=bool(needs.unified),
        n_shadows=needs.n_shadows,
        n_rollback=needs.n_rollback,
    )


@contextmanager
def fresh_chains(model: Model) -> Iterator[object]:
    """A function that decodes tokens one at a time from an empty context, and gives the logits on the way."""
    with Context(model, EXACT) as context:

        def chain(tokens: Sequence[int], lengths: Sequence[int]) -> dict[int, NDArray[np.float32]]:
            assert context.remove(0, 0)
            wanted = set(lengths)
            found = {}
            for position in range(max(lengths)):
                context.decode([Span(0, position, [tokens[position]], 1, 0)])
                if position + 1 in wanted:
                    found[position + 1] = context.logits(0).copy()
            return found

        yield chain


def run(model: Model, kind: type[Memory], n_sequences: int, seeds: range, n_steps: int) -> Tally:
    total = Tally()
    with Context(model, config_for(kind, n_sequences)) as context, fresh_chains(model) as chain:
        memory = kind(context)
        for seed in seeds:
            tally = Schedule(context, memory, chain, random.Random(seed), N_CTX).run(n_steps)
            total.rows += tally.rows
            total.rewinds += tally.rewinds
            total.differing += tally.differing
            total.worst = max(total.worst, tally.worst)
    return total


@pytest.mark.parametrize(("arch", "kind", "n_sequences"), CASES)
def test_bit_identical_after_rewind(arch: str, kind: type[Memory], n_sequences: int, tiny_model: TinyModel) -> None:
    tally = run(tiny_model(arch), kind, n_sequences, range(60 if n_sequences == 1 else 20), n_steps=8)
    assert tally.rewinds > 100
    assert tally.differing == 0, tally


@pytest.mark.parametrize("kind", [Fork, Checkpoint])
def test_several_slots_in_one_pool_stay_close(kind: type[Memory], tiny_model: TinyModel) -> None:
    """The fast configuration: neighbours change the order of summation, not the state."""
    model = tiny_model("qwen35")
    config = replace(config_for(kind, 4), unified=True)
    with Context(model, config) as context, fresh_chains(model) as chain:
        tally = Schedule(context, kind(context), chain, random.Random(1), N_CTX).run(60)
    assert tally.rewinds > 20
    # A wrong state is off by several; see the test of the ring below.
    assert tally.worst < 1.0, tally


@pytest.mark.parametrize("arch", RING)
def test_the_ring_mixes_up_several_sequences(arch: str, tiny_model: TinyModel) -> None:
    """A known fault of the pinned libllama, and why `Ring` is refused for several slots.

    When this fails the library was mended: allow several slots in `Ring.refusal`.
    """
    tally = run(tiny_model(arch), Ring, 4, range(40), n_steps=12)
    assert tally.worst > 1.0
    assert Ring.refusal(recurrent=True, n_parallel=4) is not None


@pytest.mark.parametrize("arch", sorted(set(STATEFUL) - {*RING, "qwen35-mtp"}))
def test_where_the_library_keeps_no_ring_the_context_says_so(arch: str, tiny_model: TinyModel) -> None:
    with Context(tiny_model(arch), config_for(Ring, 1)) as context:
        assert context.n_rollback == 0


def test_every_memory_is_covered() -> None:
    assert {kind for _, kind, _ in CASES} == set(KINDS.values())
