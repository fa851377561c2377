"""The same law over libllama: real states, real cells, copied out, copied in and cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from foretoken.backend import Span
from foretoken.config import CacheConfig
from foretoken.llama.context import Context
from foretoken.memory import Checkpoint, Fork, Memory, Ring, Trim
from foretoken.types import Request, Token
from tests.cache.conversations import GREEDY, Conversations, NoThrift
from tests.conftest import TinyModel
from tests.engine.harness import Adversary, Answer, finish, make_loop, submit
from tests.laws.test_llama_laws import config_for

CASES = [
    ("qwen35", Checkpoint, 2),
    ("qwen35", Fork, 1),
    ("qwen35", Ring, 1),
    ("qwen3next", Checkpoint, 1),
    ("mamba2", Checkpoint, 3),
    ("mamba", Fork, 1),
    ("lfm2", Checkpoint, 2),
    ("jamba", Fork, 1),
    ("granitehybrid", Checkpoint, 2),
    ("llama", Trim, 2),
    ("qwen3", Trim, 1),
    ("gemma3", Trim, 1),
    ("gemma3", Trim, 2),
]


@pytest.mark.parametrize(("arch", "kind", "n_slots"), CASES)
def test_answers_are_those_of_a_model_that_keeps_nothing(
    arch: str, kind: type[Memory], n_slots: int, tiny_model: TinyModel
) -> None:
    model = tiny_model(arch)
    n_vocab, end = model.vocabulary.n_tokens, min(model.vocabulary.end_tokens)
    with Context(model, config_for(kind, n_slots)) as context, Context(model, config_for(kind, 1)) as plain_context:
        plain = make_loop(plain_context, kind(plain_context), model.vocabulary)

        def oracle(prompt: Sequence[Token], n: int) -> list[Token]:
            request = Request(list(prompt), GREEDY, max_tokens=n, cache_prompt=False)
            _, (answer,) = submit(plain, request)
            finish(plain)
            return answer.tokens

        n_cached = 0
        for seed, budget in enumerate((10**9, 400_000)):
            cache = CacheConfig(budget, gap=4)
            loop = make_loop(context, kind(context), model.vocabulary, [Adversary("random", 1, n_vocab)], cache=cache)
            loop.cache.thrift = NoThrift()
            talks = Conversations(loop, oracle, random.Random(f"{arch} {seed}"), n_vocab, end, context.n_ctx)
            n_cached += talks.run(5).cached
            for slot in loop.scheduler.slots:
                loop.memory.release(slot.id)
        assert n_cached > 0


def test_what_a_sliding_window_no_longer_saw_is_missed_by_nobody(tiny_model: TinyModel) -> None:
    """A text comes back from the host, and the next one goes on from the middle of it."""
    model = tiny_model("gemma3")
    rng = random.Random(1)
    first, other = ([rng.randrange(model.vocabulary.n_tokens) for _ in range(100)] for _ in range(2))
    found = []
    for config in (CacheConfig(10**9, gap=4), CacheConfig(0, reuse=False)):
        with Context(model, config_for(Trim, 1)) as context:
            loop = make_loop(context, Trim(context), model.vocabulary, cache=config)
            loop.cache.thrift = NoThrift()
            answers: list[Answer] = []
            for prompt in (first, other, None, [*first[:60], 8, 9]):
                text = [*first, *answers[0].tokens, 5, 6] if prompt is None else prompt
                _, (answer,) = submit(loop, Request(text, GREEDY, max_tokens=12, ignore_eos=True))
                finish(loop)
                answers.append(answer)
        found.append(answers)
    kept, plain = found
    assert kept[2].finish is not None
    assert kept[2].finish.usage.cached_tokens >= 100, "it did come back"
    assert [answer.tokens for answer in kept] == [answer.tokens for answer in plain]


@pytest.mark.parametrize(("arch", "kind", "n_slots"), [case for case in CASES if case[1] is not Ring])
def test_restored_logits_are_the_same_bits(arch: str, kind: type[Memory], n_slots: int, tiny_model: TinyModel) -> None:
    """Cells of a longer text with a state of its beginning, into a sequence that held something else."""
    model = tiny_model(arch)
    rng = random.Random(arch)
    tokens = [rng.randrange(model.vocabulary.n_tokens) for _ in range(300)]
    with Context(model, config_for(kind, n_slots)) as context:
        memory = kind(context)
        context.decode([Span(0, 0, tokens[:200], 1, 0)])
        state = context.export(0, "state") if context.recurrent else None
        if context.cells_complete:
            context.decode([Span(0, 200, tokens[200:], 1, 0)])
        cells = context.export(0, "cells") if context.attention else None
        memory.release(0)
        target = n_slots - 1
        context.decode([Span(target, 0, tokens[50:90], 0, 0)])
        if cells is None:
            memory.release(target)
        memory.adopt(target, 200, cells, state)
        assert context.length(target) == 200
        assert context.held(target) in (None, list(range(200)))
        context.decode([Span(target, 200, tokens[200:], 1, 0)])
        found = context.logits(99).copy()
        memory.release(target)
        for position in range(300):
            context.decode([Span(target, position, tokens[position : position + 1], 1, 0)])
        assert np.array_equal(found, context.logits(0))
