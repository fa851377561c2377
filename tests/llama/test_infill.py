"""The sampler that editors list: only likely tokens, and an early end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama.context import Context
from foretoken.llama.greedy import GreedySampler
from foretoken.types import SamplingParams
from tests.conftest import TinyModel


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("top_k", [0, 40])
def test_an_answer_ends_as_soon_as_it_may(tiny_model: TinyModel, temperature: float, top_k: int) -> None:
    model = tiny_model("qwen35")
    end = min(model.vocabulary.end_tokens)
    with Context(model, ContextConfig(n_ctx=64, n_threads=1)) as context:
        context.decode([Span(0, 0, [5, 6, 7], 1, 0)])
        logits = context.logits(2)
        # Almost as likely as the best token: one of many that may come.
        bias = {end: float(logits.max() - logits[end]) - 0.01}
        plain = SamplingParams(temperature=temperature, seed=1, top_k=top_k, top_p=1, min_p=0, logit_bias=bias)
        infill = replace(plain, infill=True)
        assert not GreedySampler.serves(infill)
        free, ending = context.sampler(plain, []), context.sampler(infill, [])
        assert {free.sample(2) for _ in range(4)} - model.vocabulary.end_tokens
        assert {ending.sample(2) for _ in range(4)} <= model.vocabulary.end_tokens
        sure = context.sampler(replace(infill, logit_bias={9: 50.0}), [])
        assert {sure.sample(2) for _ in range(4)} == {9}
