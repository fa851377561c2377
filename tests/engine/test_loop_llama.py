"""The loop over libllama: every architecture, every memory it supports, adversarial drafters, company."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from foretoken.backend import Span
from foretoken.engine.logprobs import logprobs
from foretoken.engine.loop import Loop
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.memory import Checkpoint, Fork, Memory, Ring, Trim
from foretoken.types import Request, SamplingParams, Token
from tests.conftest import TinyModel
from tests.engine.harness import ADVERSARIES, Adversary, Answer, finish, make_loop, submit
from tests.laws.test_llama_laws import ATTENTION_ONLY, CASES, config_for

LIVELY = ("qwen35", "qwen3next", "mamba2", "lfm2", "granitehybrid", "llama")
GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=0.9, top_k=20, min_p=0, repeat_penalty=1.1, seed=11)


@contextmanager
def loop_over(
    model: Model, kind: type[Memory], n_slots: int, drafters: list[Adversary], **settings: object
) -> Iterator[Loop]:
    config = dataclasses.replace(config_for(kind, n_slots), n_outputs=128, **settings)
    with Context(model, config) as context:
        yield make_loop(context, kind(context), model.vocabulary, drafters)


def requests(model: Model, rng: random.Random, n: int) -> list[Request]:
    n_vocab = model.vocabulary.n_tokens
    return [
        Request(
            [rng.randrange(n_vocab) for _ in range(rng.randint(1, 30))],
            rng.choice((GREEDY, replace(SEEDED, seed=rng.randrange(999)))),
            max_tokens=rng.randint(1, 40),
            ignore_eos=rng.random() < 0.5,
            n=rng.choice((1, 1, 2)),
        )
        for _ in range(n)
    ]


def plain_answers(model: Model, kind: type[Memory], wanted: list[Request]) -> list[list[Answer]]:
    """Each request alone, one after another, without drafts and without anything left from the last."""
    found = []
    with loop_over(model, kind, 1, []) as loop:
        for request in wanted:
            _, answers = submit(loop, replace(request, cache_prompt=False))
            finish(loop)
            found.append(answers)
    return found


def oracle_of(plain: list[list[Answer]], wanted: list[Request]) -> Callable[[list[Token], int], list[Token]]:
    """Knows every plain answer, and so what comes next in each of them."""
    chains = [
        list(request.prompt) + answer.tokens
        for request, answers in zip(wanted, plain, strict=True)
        for answer in answers
    ]

    def oracle(tokens: list[Token], n: int) -> list[Token]:
        for chain in chains:
            if chain[: len(tokens)] == list(tokens):
                return chain[len(tokens) : len(tokens) + n]
        return []

    return oracle


@pytest.mark.parametrize(("arch", "kind", "n_slots"), CASES)
def test_same_tokens_as_plain_decoding(arch: str, kind: type[Memory], n_slots: int, tiny_model: TinyModel) -> None:
    model = tiny_model(arch)
    rng = random.Random(arch + kind.name)
    wanted = requests(model, rng, 10)
    plain = plain_answers(model, kind, wanted)
    for adversary in ("random", "half-right", "right"):
        drafter = Adversary(adversary, 1, model.vocabulary.n_tokens, oracle_of(plain, wanted))
        with loop_over(model, kind, n_slots, [drafter]) as loop:
            found = []
            for request in wanted:
                found.append(submit(loop, request)[1])
                for _ in range(rng.randint(0, 4)):
                    loop.step()
            finish(loop)
        for answers, expected in zip(found, plain, strict=True):
            assert [a.tokens for a in answers] == [a.tokens for a in expected], adversary
            assert [a.text for a in answers] == [a.text for a in expected]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize(("arch", "kind", "n_slots"), [case for case in CASES if case[0] in LIVELY])
def test_arrivals_and_cancels_beside_hostile_drafters(
    adversary: str, arch: str, kind: type[Memory], n_slots: int, tiny_model: TinyModel
) -> None:
    """Thousands of requests come, go and are cancelled; whoever stays gets the plain answer."""
    model = tiny_model(arch)
    wanted = requests(model, random.Random(arch), 6)
    plain = plain_answers(model, kind, wanted)
    rng = random.Random(adversary + arch + kind.name)
    drafter = Adversary(adversary, 2, model.vocabulary.n_tokens, oracle_of(plain, wanted))
    with loop_over(model, kind, n_slots, [drafter]) as loop:
        running = []
        for _ in range(12):
            which = rng.randrange(len(wanted))
            sessions, answers = submit(loop, wanted[which])
            for _ in range(rng.randint(0, 5)):
                loop.step()
            if rng.random() < 0.3:
                rng.choice(sessions).cancelled = True
            running.append((which, answers))
        finish(loop)
    for which, answers in running:
        for answer, expected in zip(answers, plain[which], strict=True):
            n = len(answer.tokens) if answer.reason == "cancelled" else len(expected.tokens)
            assert answer.tokens == expected.tokens[:n]


@pytest.mark.parametrize(("arch", "kind"), [("qwen35", Checkpoint), ("llama", Trim)])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_four_in_parallel_equal_four_in_turn(
    arch: str, kind: type[Memory], sampling: SamplingParams, tiny_model: TinyModel
) -> None:
    model = tiny_model(arch)
    wanted = [
        Request(model.vocabulary.tokenize(text), replace(sampling, seed=i), max_tokens=60, ignore_eos=True)
        for i, text in enumerate(("def quicksort(a):", "int main(void) {", "public class Q {", "Once upon a"))
    ]
    with loop_over(model, kind, 4, []) as loop:
        together = [submit(loop, request)[1][0] for request in wanted]
        finish(loop)
    assert [a.tokens for a in together] == [a[0].tokens for a in plain_answers(model, kind, wanted)]


SAMPLERS = {
    "penalties": SamplingParams(repeat_penalty=1.3, frequency_penalty=0.4, presence_penalty=0.2, seed=1),
    "dry": SamplingParams(dry_multiplier=0.8, dry_allowed_length=1, seed=2),
    "top-n-sigma": SamplingParams(top_n_sigma=1.5, seed=3),
    "typical": SamplingParams(typical_p=0.7, seed=4),
    "xtc": SamplingParams(xtc_probability=0.5, seed=5),
    "dynatemp": SamplingParams(dynatemp_range=0.5, seed=6),
    "mirostat": SamplingParams(mirostat=1, seed=7),
    "mirostat-2": SamplingParams(mirostat=2, seed=8),
    "bias": SamplingParams(temperature=0, logit_bias={5: 4.0, 9: -100.0}),
    "flat": SamplingParams(temperature=2.0, top_k=0, top_p=1, min_p=0, seed=9),
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_gives_the_same_text_with_drafts(name: str, tiny_model: TinyModel) -> None:
    model = tiny_model("qwen35")
    wanted = [Request(model.vocabulary.tokenize("def f(x):"), SAMPLERS[name], max_tokens=50, ignore_eos=True)]
    plain = plain_answers(model, Fork, wanted)
    drafter = Adversary("half-right", 2, model.vocabulary.n_tokens, oracle_of(plain, wanted))
    with loop_over(model, Fork, 1, [drafter]) as loop:
        _, (answer,) = submit(loop, wanted[0])
        finish(loop)
    assert answer.tokens == plain[0][0].tokens
    assert answer.finish.usage.accepted > 5
    assert answer.finish.usage.rewinds > 0


def test_logprobs_are_the_same_with_drafts(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen35")
    request = Request(model.vocabulary.tokenize("import os"), GREEDY, max_tokens=30, logprobs=3, ignore_eos=True)
    seen = []
    oracle = oracle_of(plain_answers(model, Fork, [request]), [request])
    for adversary in ("empty", "half-right"):
        drafter = Adversary(adversary, 3, model.vocabulary.n_tokens, oracle)
        with loop_over(model, Fork, 1, [drafter]) as loop:
            events = []
            loop.submit(request, list(request.prompt), events.append)
            finish(loop)
        seen.append([(t.id, t.logprob, t.top) for e in events[:-1] for t in e.tokens])
    assert seen[0] == seen[1]
    assert all(top[0][1] == logprob and len(top) == 3 for _, logprob, top in seen[0])


@pytest.mark.parametrize("arch", ATTENTION_ONLY)
def test_context_shift(arch: str, tiny_model: TinyModel) -> None:
    model = tiny_model(arch)
    request = Request(
        model.vocabulary.tokenize("once"),
        GREEDY,
        max_tokens=400,
        ignore_eos=True,
        context_shift=True,
        n_keep=1,
    )
    with loop_over(model, Trim, 1, [], n_ctx=256, kv_type_k="f16", kv_type_v="f16") as loop:
        _, (answer,) = submit(loop, request)
        finish(loop)
    assert answer.reason == "length"
    assert len(answer.tokens) == 400
    with loop_over(model, Trim, 1, [], n_ctx=256, kv_type_k="q8_0") as loop:
        _, (stopped,) = submit(loop, request)
        finish(loop)
    assert stopped.reason == "context", "the pinned libllama crashes when it shifts quantised keys"


def test_the_ring_rolls_back_without_replay(tiny_model: TinyModel) -> None:
    model = tiny_model("qwen35")
    with loop_over(model, Ring, 1, [Adversary("random", 4, model.vocabulary.n_tokens)]) as loop:
        _, (answer,) = submit(loop, Request([1, 2, 3], GREEDY, max_tokens=40, ignore_eos=True))
        finish(loop)
    assert answer.finish.usage.rewinds > 10
    assert answer.finish.usage.replayed == 0


def test_a_prompts_own_probabilities(tiny_model: TinyModel) -> None:
    """As evaluation harnesses ask for them: every token of the prompt, whatever the chunks and the company."""
    model = tiny_model("qwen35")
    prompt = model.vocabulary.tokenize("def quicksort(values):\n    return sorted(values)\n" * 12)
    assert len(prompt) > 150
    request = Request(prompt, GREEDY, max_tokens=0, prompt_logprobs=2)
    with loop_over(model, Checkpoint, 2, []) as loop:
        submit(loop, Request([5, 6], GREEDY, max_tokens=60, ignore_eos=True))
        loop.step()
        _, (answer,) = submit(loop, request)
        finish(loop)
    scored = answer.finish.prompt
    assert [info.id for info in scored] == prompt
    assert scored[0].logprob is None
    with Context(model, config_for(Checkpoint, 1)) as context:
        for position, info in enumerate(scored[1:]):
            context.decode([Span(0, position, [prompt[position]], 1, 0)])
            assert (info.logprob, info.top) == logprobs(context.logits(0), info.id, 2)


def test_probabilities_of_the_prompt_and_of_the_answer(tiny_model: TinyModel) -> None:
    model = tiny_model("llama")
    request = Request([9, 8, 7], GREEDY, max_tokens=3, prompt_logprobs=0, logprobs=1, ignore_eos=True)
    with loop_over(model, Trim, 1, []) as loop:
        for _ in range(2):
            _, (answer,) = submit(loop, request)
            finish(loop)
            assert [info.id for info in answer.finish.prompt] == [9, 8, 7]
            assert len(answer.tokens) == 3
