"""Constrained answers inside the engine: what they may say, what they cost, and what cannot break them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pytest
from msgspec.structs import replace

from foretoken import Engine, Request, SamplingParams
from foretoken.backend import Span
from foretoken.config import ContextConfig, ModelConfig, SpeculationConfig
from foretoken.errors import InvalidRequest
from foretoken.grammar.compiler import Compiler
from foretoken.grammar.grammar import Grammar
from foretoken.llama.context import Context
from foretoken.llama.guidance import guidance_tokenizer
from foretoken.llama.model import Model
from foretoken.llama.vocabulary import Vocabulary
from foretoken.memory import KINDS
from foretoken.models import path_of
from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.drafters.grammar import GrammarDrafter
from foretoken.speculation.guard import Guard
from foretoken.types import Constraint
from tests.allowed_tokens import Only
from tests.engine.harness import ADVERSARIES, Adversary, Answer, finish, make_loop
from tests.grammar.asking import GREEDY, ask, both, keeping_to
from tests.grammar.schemas import LONG_KEYS, random_schema

SMALL = {
    "type": "object",
    "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["a"],
    "additionalProperties": False,
}
SEEDED = SamplingParams(temperature=1.0, seed=11)


@pytest.fixture(scope="module")
def nano() -> Iterator[Model]:
    with Model(ModelConfig(path_of("nano"), vocab_only=True)) as model:
        yield model


@pytest.fixture(scope="module")
def vocabulary(nano: Model) -> Vocabulary:
    return nano.vocabulary


@pytest.fixture(scope="module")
def compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler(lambda: guidance_tokenizer(vocabulary))


def small(compiler: Compiler) -> Grammar:
    return compiler.compile(Constraint("json_schema", json.dumps(SMALL)))


@pytest.mark.parametrize("model", ["nano", "qwen35", "mamba2", "llama"])
@pytest.mark.parametrize("params", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_forced_tokens_halve_the_steps(model: str, params: SamplingParams, tiny_path: Callable[..., Path]) -> None:
    path = path_of("nano") if model == "nano" else tiny_path(model)
    only = SpeculationConfig(drafters=("grammar",), plan="fixed")
    with Engine.load(path, n_ctx=512, n_threads=1, speculation=only) as engine:
        speculated, plain = both(engine, keeping_to(LONG_KEYS, params=params))
    assert plain.finish.reason == "stop"
    assert speculated.usage.steps * 2 <= plain.usage.steps
    # What is forced is always right.
    drafter = speculated.usage.drafters["grammar"]
    assert drafter.accepted == drafter.verified > 0
    assert speculated.usage.rewinds == 0


def test_the_planner_takes_them_by_itself() -> None:
    # Its steps are long enough that what else runs here does not decide what they cost.
    with Engine.load(path_of("mini"), n_ctx=512, n_threads=1) as engine:
        speculated, plain = both(engine, keeping_to(LONG_KEYS))
    assert speculated.usage.steps * 2 <= plain.usage.steps
    assert speculated.usage.drafters["grammar"].accepted > 0


@pytest.mark.parametrize("kind", ADVERSARIES)
def test_no_drafter_can_break_a_grammar(kind: str, tiny_model: Callable[..., Model]) -> None:
    model = tiny_model("qwen35")
    vocabulary = model.vocabulary
    compiler = Compiler(lambda: guidance_tokenizer(vocabulary))
    prompt = vocabulary.tokenize("Answer in JSON:")

    def answers(drafters: list[object]) -> list[Answer]:
        config = ContextConfig(n_ctx=512, n_sequences=2, n_threads=1, kv_type_k="q8_0", kv_type_v="q8_0")
        with Context(model, dataclasses.replace(config, flash_attention="on")) as context:
            loop = make_loop(context, KINDS["checkpoint"](context), vocabulary, drafters)  # type: ignore[arg-type]
            found = []
            for seed in range(6):
                params = GREEDY if seed % 2 else SamplingParams(temperature=1, seed=seed)
                request = keeping_to(random_schema(Random(seed)), params=params)
                assert request.constraint is not None
                answer = Answer()
                loop.submit(request, prompt, answer.take, compiler.compile(request.constraint))
                found.append(answer)
            finish(loop)
        return found

    plain = answers([])
    broken = answers([Adversary(kind, 1, vocabulary.n_tokens), GrammarDrafter()])
    assert [answer.tokens for answer in broken] == [answer.tokens for answer in plain]
    assert {answer.reason for answer in plain} == {"stop"}


def test_drafts_are_cut_where_they_leave_the_grammar(compiler: Compiler, vocabulary: Vocabulary) -> None:
    right = vocabulary.tokenize('{"a": 1', add_special=False)
    wrong = vocabulary.tokenize("hello", add_special=False)

    class Wrong(Adversary):
        def _one(self, ask: DraftAsk) -> Draft:
            tokens = (*right, *wrong)
            return Draft(tokens, (0.9,) * len(tokens), self.name)

    guard = Guard(Wrong("wrong", 0, vocabulary.n_tokens), vocabulary.n_tokens, vocabulary.end_tokens)
    (free,) = guard.draft([DraftAsk(0, [1], 99)])
    (cut,) = guard.draft([DraftAsk(0, [1], 99, grammar=small(compiler))])
    assert free.tokens == (*right, *wrong)
    assert cut.tokens == tuple(right)


def test_an_answer_ends_where_its_grammar_does(compiler: Compiler, vocabulary: Vocabulary) -> None:
    grammar = small(compiler)
    for token in vocabulary.tokenize('{"a": 1}', add_special=False):
        assert token in grammar.allowed().tokens
        grammar.accept(token)
    assert grammar.complete
    assert set(grammar.allowed().tokens) == vocabulary.end_tokens


@pytest.mark.parametrize("seed", range(8))
def test_tokens_are_allowed_one_by_one_as_they_are_all_together(
    compiler: Compiler, vocabulary: Vocabulary, seed: int
) -> None:
    rng = Random(seed)
    grammar = compiler.compile(Constraint("json_schema", json.dumps(random_schema(rng))))
    everything = np.arange(vocabulary.n_tokens)
    for _ in range(30):
        allowed = grammar.allowed()
        few = {*rng.sample(range(vocabulary.n_tokens), 200), *rng.choices(allowed.tokens.tolist(), k=20)}
        for token in few | vocabulary.end_tokens:
            assert allowed.allows(token) == (token in allowed.tokens)
        assert (everything[allowed.holds(everything)] == allowed.tokens).all()
        if grammar.complete:
            break
        grammar.accept(rng.choice(allowed.tokens.tolist()))


def test_no_step_is_spent_on_an_end_that_is_certain(tiny_path: Callable[..., Path]) -> None:
    with Engine.load(tiny_path("llama"), n_ctx=128, n_threads=1) as engine:
        answer, _ = both(engine, keeping_to({"const": 7}))
        assert (answer.text, answer.finish.reason, len(answer.tokens)) == ("7", "stop", 1)


def test_copies_go_their_own_way(compiler: Compiler, vocabulary: Vocabulary) -> None:
    first = small(compiler)
    second = first.copy()
    for token in vocabulary.tokenize('{"a":', add_special=False):
        first.accept(token)
    assert second.n_valid(vocabulary.tokenize('{"a": 1}', add_special=False)) > 0
    assert first.n_valid(vocabulary.tokenize('{"a": 1}', add_special=False)) == 0


@pytest.mark.parametrize(
    ("thought", "text", "good"),
    [
        ("open", 'so { <b>\n it is</think>{"a": 1}', True),
        ("open", 'so</think>\n\n{"a": 1}', True),
        ("open", 'so</think>\n\n\n\n{"a": 1}', False),
        ("open", "</think>no", False),
        ("may", '<think>\nso</think>\n{"a": 1}', True),
        ("may", '{"a": 1}', True),
        ("may", "so", False),
        ("none", "<think>", False),
        ("none", '{"a": 1}', True),
        ("none", '{"a":  1}', False),
        ("none", '{"a": 12}', False),
    ],
)
def test_thoughts(compiler: Compiler, vocabulary: Vocabulary, thought: str, text: str, good: bool) -> None:
    grammar = compiler.compile(Constraint("json_schema", json.dumps(SMALL), thought))  # type: ignore[arg-type]
    tokens = vocabulary.tokenize(text, add_special=False)
    assert (grammar.n_valid(tokens) == len(tokens)) == good
    if good:
        for token in tokens:
            grammar.accept(token)
        assert set(grammar.allowed().tokens) == vocabulary.end_tokens


def test_a_grammar_that_proves_too_complex_ends_the_answer_with_the_reason(tiny_path: Callable[..., Path]) -> None:
    # It can be compiled; where any of its keys may come next it has more ways to go on than are followed.
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(1500)}, "required": ["p1499"]}
    with Engine.load(tiny_path("qwen35"), n_ctx=256, n_threads=1) as engine:
        answer, _ = both(engine, keeping_to(wide))
        assert answer.finish.reason == "invalid"
        assert "max is" in (answer.finish.error or "")
        # The slot serves the next request as if nothing had been.
        both(engine, Request("def add(a, b):", GREEDY, max_tokens=12))


HOSTILE = {
    "nested": '{"items":' * 50_000 + "{}" + "}" * 50_000,
    "endless": json.dumps({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}),
    "multiples": json.dumps({"type": "integer", "multipleOf": 982451653}),
    "product": json.dumps(
        {"allOf": [{"anyOf": [{"properties": {f"{i}{j}": {}}} for j in range(8)]} for i in range(8)]}
    ),
    "impossible": json.dumps({"allOf": [{"type": "string"}, {"type": "integer"}]}),
    "false": "false",
    "number": "5",
    "broken": "{",
    "surrogate": '{"const": "\\ud800"}',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_schemas_are_refused(compiler: Compiler, name: str) -> None:
    with pytest.raises(InvalidRequest, match=r"the JSON schema cannot be used: ."):
        compiler.compile(Constraint("json_schema", HOSTILE[name]))


@pytest.mark.parametrize(
    "constraint",
    [
        Constraint("regex", "(" * 50_000),
        Constraint("regex", "(" * 1000 + ")" * 1000),
        Constraint("gbnf", "root ::= " + "(" * 50_000),
        Constraint("gbnf", "root ::= [\\"),
        Constraint("gbnf", 'root ::= "\\'),
        Constraint("gbnf", 'a_b ::= "x"\na-b ::= "y"\nroot ::= a_b a-b'),
        Constraint("lark", "start: " + "(" * 50_000),
        Constraint("lark", "start: " + '("a" | ' * 5_000 + '"b"' + ")" * 5_000),
        Constraint("lark", "start: start"),
        Constraint("lark", "start: <[99999999]>"),
        Constraint("lark", "start: <|no such token|>"),
        Constraint("lark", "start: @nothing"),
        Constraint("lark", '%import common.WORD\nstart: "a" WORDS'),
        Constraint("lark", "x" * 200_000),
    ],
    ids=lambda constraint: f"{constraint.kind} {constraint.source[:24]!r}",
)
def test_hostile_grammars_are_refused(compiler: Compiler, constraint: Constraint) -> None:
    with pytest.raises(InvalidRequest, match=r"cannot be used: ."):
        compiler.compile(constraint)


SAMPLERS = {
    "greedy": GREEDY,
    "penalties": replace(GREEDY, repeat_penalty=1.2),
    "seeded": SEEDED,
    "typical": replace(SEEDED, typical_p=0.5),
    "mirostat": replace(SEEDED, mirostat=2),
    "xtc": replace(SEEDED, xtc_probability=1.0),
}


@pytest.mark.parametrize("params", SAMPLERS.values(), ids=SAMPLERS)
def test_samplers_choose_among_what_is_allowed(params: SamplingParams, tiny_model: Callable[..., Model]) -> None:
    model = tiny_model("llama")
    with Context(model, ContextConfig(n_ctx=64, n_threads=1)) as context:
        context.decode([Span(0, 0, [5, 6, 7], 1, 0)])
        everything = np.arange(context.n_vocab)
        free, bound = context.sampler(params, []), context.sampler(params, [])
        assert [bound.sample(2, Only(everything)) for _ in range(8)] == [free.sample(2) for _ in range(8)]
        rng = np.random.default_rng(0)
        for size in (1, 2, 5, 300):
            allowed = np.sort(rng.choice(everything, size, replace=False))
            banning = replace(
                params, banned=tuple(int(token) for token in allowed[:1]), logit_bias={int(allowed[-1]): 2.0}
            )
            for one in (context.sampler(params, []), context.sampler(banning, [])):
                assert one.sample(2, Only(allowed)) in allowed
                one.close()
        free.close()
        bound.close()


def test_the_engine_refuses_what_it_cannot_compile(tiny_path: Callable[..., Path]) -> None:
    with Engine.load(tiny_path("llama"), n_ctx=128, n_threads=1) as engine:
        with pytest.raises(InvalidRequest, match="nonsense"):
            ask(engine, keeping_to({"type": "nonsense"}))
        with pytest.raises(InvalidRequest, match="ignore_eos"):
            ask(engine, replace(keeping_to(SMALL), ignore_eos=True))
