"""The built-in drafters with several slots: requests arrive, leave and are cancelled, and nobody's text changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.assembly import assemble
from foretoken.engine.host import EngineHost
from foretoken.engine.loop import Loop
from foretoken.speculation.planner import FixedPlanner
from foretoken.speculation.registry import build
from foretoken.speculation.speculator import Speculator
from foretoken.types import OFF, Request, SamplingParams
from tests.engine.harness import finish, submit
from tests.engine.test_drafters_llama import OPTIONS, TEXT_DRAFTERS

ARCHES = ["qwen35", "qwen35moe", "qwen3next", "mamba2", "lfm2", "jamba", "granitehybrid", "llama"]


def request(rng: random.Random, owner: str) -> Request:
    phrase = rng.choice(("x = x + 1\n", "return f(a, b)\n", "la la ", "0 1 0 1 "))
    sampling = SamplingParams(temperature=0) if rng.random() < 0.5 else SamplingParams(seed=rng.randrange(99))
    return Request(phrase * rng.randint(1, 6), sampling, max_tokens=rng.randint(1, 40), ignore_eos=True, owner=owner)


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("n_parallel", [2, 4])
def test_company(arch: str, n_parallel: int, tiny_path: Callable[..., Path]) -> None:
    rng = random.Random(arch)
    settings = SpeculationConfig((*TEXT_DRAFTERS, "draft-model"), plan="fixed", n_max=8, options=OPTIONS,
                                 draft_model=ModelConfig(tiny_path("qwen35")))  # fmt: skip
    config = EngineConfig(ModelConfig(tiny_path(arch)), n_parallel=n_parallel, n_ctx=512, n_threads=1,
                          speculation=settings, check_integrity=True, prefill_chunk=9)  # fmt: skip
    assembly = assemble(config)
    host = EngineHost(config, assembly)
    vocabulary = assembly.model.vocabulary
    planner = FixedPlanner(n_max=8)
    speculator = Speculator(build(settings, host), planner, vocabulary.n_tokens, vocabulary.end_tokens)
    loop = Loop(assembly.context, assembly.memory, vocabulary, speculator, config)
    assert assembly.exact
    running = []
    for _ in range(14):
        asked = request(rng, rng.choice(("ann", "bob")))
        tokens = vocabulary.tokenize(asked.prompt)
        running.append((asked, *submit_tokens(loop, asked, tokens)))
        for _ in range(rng.randint(0, 6)):
            loop.step()
        if rng.random() < 0.25:
            running[-1][1].cancelled = True
    finish(loop)
    for asked, _, answer in running:
        plain = Request(asked.prompt, asked.sampling, asked.max_tokens, ignore_eos=True, speculation=OFF,
                        cache_prompt=False)  # fmt: skip
        _, wanted = submit_tokens(loop, plain, vocabulary.tokenize(asked.prompt))
        finish(loop)
        n = len(answer.tokens) if answer.reason == "cancelled" else len(wanted.tokens)
        assert answer.tokens == wanted.tokens[:n]
    assert not any(guard.total.failures for guard in speculator.guards)
    host.close()
    assembly.close()


def submit_tokens(loop: Loop, asked: Request, tokens: list[int]):
    sessions, answers = submit(loop, Request(
        tokens, asked.sampling, asked.max_tokens, ignore_eos=True, owner=asked.owner, speculation=asked.speculation,
        cache_prompt=asked.cache_prompt,
    ))  # fmt: skip
    return sessions[0], answers[0]
