"""Rows are found again in the library's buffer, whatever it did to their order while computing."""

from __future__ import annotations

import random

import llama_cpp
import numpy as np
import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama.context import Context
from foretoken.llama.rows import Rows
from tests.conftest import TinyModel


@pytest.mark.parametrize("unified", [True, False])
@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_every_row_is_the_one_the_library_names(tiny_model: TinyModel, arch: str, unified: bool) -> None:
    """Several sequences of unequal length, computed in small parts: the library sorts their rows as it likes."""
    config = ContextConfig(n_ctx=512, n_sequences=4, n_threads=1, n_outputs=64, n_ubatch=8, unified=unified)
    with Context(tiny_model(arch), config) as context:
        rng = random.Random(1)
        lengths = [0] * 4
        for _ in range(20):
            spans: list[Span] = []
            row = 0
            for seq in rng.sample(range(4), rng.randint(1, 4)):
                tokens = [rng.randrange(context.n_vocab) for _ in range(rng.randint(1, 12))]
                spans.append(Span(seq, lengths[seq], tokens, rng.randint(0, len(tokens)), row))
                lengths[seq] += len(tokens)
                row += len(tokens)
            context.decode(spans)
            for number in (number for span in spans for number in span.outputs):
                named = llama_cpp.llama_get_logits_ith(context.pointer, number)
                wanted = np.ctypeslib.as_array(named, (context.n_vocab,))
                assert (context.logits(number) == wanted).all()


def test_helpers_find_the_same_best_tokens(tiny_model: TinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretoken.llama.rows.available_cores", lambda: 8)
    with Context(tiny_model("qwen35"), ContextConfig(n_ctx=512, n_threads=1, n_outputs=64)) as context:
        rng = random.Random(2)
        rows = Rows(context.pointer, 64, context.n_vocab, helpers=True)
        start = 0
        for n_rows, n_outputs in ((1, 1), (40, 40), (3, 2), (64, 5), (17, 17)):
            span = Span(0, start, [rng.randrange(context.n_vocab) for _ in range(n_rows)], n_outputs, 0)
            context.decode([span])
            rows.decoded(span.outputs)
            assert [rows.best(row) for row in span.outputs] == [
                int(context.logits(row).argmax()) for row in span.outputs
            ]
            start += n_rows
        rows.close()
