"""The multi-token-prediction layer in a context of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from foretoken.backend import Span
from foretoken.config import ContextConfig, ModelConfig
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.llama.mtp import MtpContext

TINY = ContextConfig(n_ctx=256, n_batch=64, n_ubatch=64, n_threads=1)


def test_the_last_row_s_state_does_not_depend_on_how_many_rows_came_before(tiny_path: Callable[..., Path]) -> None:
    with Model(ModelConfig(tiny_path("qwen35-mtp"), load_mtp=True)) as model, Context(model, TINY) as target:
        tokens = model.vocabulary.tokenize("def f(x):\n    return x + 1\n")
        with MtpContext(target) as layer:
            target.decode([Span(0, 0, tokens, 1, 0)])
            before = np.concatenate([np.zeros((1, layer.n_embd)), layer.target_hidden(Span(0, 0, tokens, 1, 0))[:-1]])
            layer.decode_after([Span(0, 0, tokens, 1, 0)], before)
            at_once = layer.hidden(len(tokens) - 1)
            logits = layer.logits(len(tokens) - 1).copy()
            layer.remove(0, 0)
            for i, token in enumerate(tokens):
                layer.decode_after([Span(0, i, [token], 1, 0)], before[i : i + 1])
            np.testing.assert_allclose(layer.logits(0), logits, atol=1e-2)
            np.testing.assert_allclose(layer.hidden(0), at_once, atol=1e-2)
