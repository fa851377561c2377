"""The short cut for greedy sampling chooses what libllama's own chain chooses."""

from __future__ import annotations

import random

from foretoken.backend import Span
from foretoken.config import ContextConfig
from foretoken.llama.context import Context
from foretoken.llama.greedy import GreedySampler
from foretoken.llama.sampler import LlamaSampler
from foretoken.types import SamplingParams
from tests.conftest import TinyModel


def test_same_choice_as_the_chain(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen35")
    rng = random.Random(0)
    with Context(model, ContextConfig(n_ctx=512, n_threads=1, n_outputs=64)) as context:
        tokens = [rng.randrange(context.n_vocab) for _ in range(60)]
        context.decode([Span(0, 0, tokens, 60, 0)])
        for row in range(60):
            best = int(context.logits(row).argmax())
            for params in (
                SamplingParams(temperature=0),
                SamplingParams(temperature=0, banned=(best,)),
                SamplingParams(temperature=0, logit_bias={best: -3.5, 7: 2.25}, banned=(rng.randrange(2048),)),
            ):
                before = context.logits(row).copy()
                chain = LlamaSampler(context.pointer, context._rows, model.vocabulary, 512, params, [])
                assert GreedySampler.serves(params)
                assert context.sampler(params, []).sample(row) == chain.sample(row)
                assert (context.logits(row) == before).all()
                chain.close()


def test_penalties_need_the_chain() -> None:
    assert not GreedySampler.serves(SamplingParams(temperature=0, repeat_penalty=1.1))
    assert not GreedySampler.serves(SamplingParams(temperature=0, dry_multiplier=1))
    assert not GreedySampler.serves(SamplingParams(temperature=0.5))
