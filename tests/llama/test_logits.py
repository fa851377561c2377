"""Rows are found again in the library's buffer, whatever it did to their order while computing."""

from __future__ import annotations

import random

import llama_cpp
import numpy as np
import pytest

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama.context import Context
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
