"""native/kept-graphs.patch: a batch like an earlier one is computed by the graph that was built for that one."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack

import llama_cpp
import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama import library
from foretoken.llama.context import Context
from tests.conftest import TinyModel

pytestmark = pytest.mark.skipif(library.supports_gpu(), reason="graphs are kept where the host computes")
TWO = ContextConfig(n_ctx=640, n_sequences=2, n_batch=64, n_ubatch=64, n_threads=1, flash_attention="on")


def n_reused(context: Context) -> int:
    return int(llama_cpp.llama_perf_context(context.pointer).n_reused)


@pytest.fixture(params=["qwen35", "llama"])
def contexts(request: pytest.FixtureRequest, tiny_model: TinyModel) -> Iterator[tuple[Context, Context]]:
    """One that keeps graphs, and one that builds one for every batch."""
    model = tiny_model(request.param)
    with ExitStack() as opened, pytest.MonkeyPatch.context() as patch:
        keeping = opened.enter_context(Context(model, TWO))
        patch.setenv("LLAMA_GRAPH_REUSE_DISABLE", "1")
        yield keeping, opened.enter_context(Context(model, TWO))


def test_widths_in_turns_are_not_built_anew(contexts: tuple[Context, Context]) -> None:
    keeping, building = contexts
    widths = [1, 4, 1, 2, 3]
    for context, n_kept in ((keeping, 3 * len(widths)), (building, 0)):
        position = 0
        for turn in range(5):
            if turn == 2:
                before = n_reused(context)
            for width in widths:
                context.decode([Span(0, position, [7] * width, width, 0)])
                position += width
        assert n_reused(context) - before == n_kept


def test_the_bits_are_those_of_a_graph_built_for_the_batch(contexts: tuple[Context, Context]) -> None:
    """Through cells that are filled, forgotten and copied, and past the length at which every graph must change."""
    rng = random.Random(3)
    lengths = [0, 0]
    for _ in range(300):
        for seq in (0, 1):
            if lengths[seq] > 560:
                lengths[seq] = 0
                for context in contexts:
                    context.remove(seq, 0)
        if rng.random() < 0.03:
            lengths[1] = lengths[0]
            for context in contexts:
                context.remove(1, 0)
                context.clone(0, 1)
        spans, row = [], 0
        for seq in rng.choice([[0], [1], [0, 1]]):
            width = rng.choice([1, 1, 1, 2, 3, 5, 9, 14])
            spans.append(Span(seq, lengths[seq], [rng.randrange(200) for _ in range(width)], width, row))
            lengths[seq] += width
            row += width
        for context in contexts:
            context.decode(spans)
        for at in range(row):
            kept, built = (context.logits(at).tobytes() for context in contexts)
            assert kept == built
    assert n_reused(contexts[0]) > 150
