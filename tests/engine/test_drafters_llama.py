"""Every built-in drafter on every architecture and memory it can meet: the text is the plain text."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from foretoken import Chunk, Engine, Finish, Request, SamplingParams
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.errors import ConfigError
from foretoken.models import path_of
from foretoken.speculation.base import Draft, DraftAsk
from foretoken.speculation.registry import installed
from foretoken.types import OFF
from tests.laws.test_llama_laws import ATTENTION_ONLY, RING, STATEFUL

TEXT_DRAFTERS = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "suffix", "copy")
OPTIONS = {
    "ngram-simple": {"size_n": 2},
    "ngram-map-k": {"size_n": 2},
    "ngram-map-k4v": {"size_n": 2},
    "ngram-mod": {"n_match": 2},
}
"""Random models repeat themselves little: short keys find more to be wrong about."""
MEMORIES = [(arch, "trim") for arch in ATTENTION_ONLY]
MEMORIES += [(arch, memory) for arch in STATEFUL for memory in ("fork", "checkpoint", "checkpoint-host")]
MEMORIES += [(arch, "ring") for arch in RING]
TinyPath = Callable[..., Path]


def load(path: Path, drafters: tuple[str, ...], **settings: object) -> Engine:
    options = {name: OPTIONS[name] for name in drafters if name in OPTIONS}
    draft = settings.pop("draft_model", None)
    speculation = SpeculationConfig(drafters, plan="fixed", n_max=6, options=options, draft_model=draft)
    fixed = {"n_ctx": 512, "n_threads": 1, "check_integrity": True}
    return Engine.from_config(EngineConfig(ModelConfig(path), speculation=speculation, **{**fixed, **settings}))


def requests(rng: random.Random) -> list[Request]:
    phrases = ["def f(x):\n    return x\n", "for i in range(9):\n    print(i)\n", "int a = 0;\n", "a, b, c, "]
    return [
        Request(
            rng.choice(phrases) * rng.randint(1, 5),
            SamplingParams(temperature=0) if i % 2 else SamplingParams(temperature=0.6, seed=i, repeat_last_n=0),
            max_tokens=40,
            ignore_eos=True,
        )
        for i in range(4)
    ]


def answer(engine: Engine, request: Request) -> tuple[list[int], Finish]:
    tokens: list[int] = []
    for event in engine.generate(request):
        if isinstance(event, Chunk):
            tokens += [info.id for info in event.tokens]
        else:
            return tokens, event
    raise AssertionError("no end")


def check(engine: Engine, wanted: list[Request]) -> int:
    """Every answer equals the plain one; returns how many tokens were drafted."""
    drafted = 0
    for request in wanted:
        plain, _ = answer(engine, replace(request, speculation=OFF))
        tokens, finish = answer(engine, request)
        assert tokens == plain
        usage = finish.usage
        drafted += usage.drafted
        assert usage.drafted == sum(d.verified for d in usage.drafters.values())
        assert usage.accepted == sum(d.accepted for d in usage.drafters.values())
        assert usage.completion_tokens - usage.accepted <= usage.steps
        assert not any(d.failures for d in usage.drafters.values())
    return drafted


@pytest.mark.parametrize(("arch", "memory"), MEMORIES)
def test_all_text_drafters_together(arch: str, memory: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), TEXT_DRAFTERS, memory=memory) as engine:
        assert check(engine, requests(random.Random(arch))) > 0


@pytest.mark.parametrize("drafter", TEXT_DRAFTERS)
@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_each_text_drafter_alone(drafter: str, arch: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), (drafter,)) as engine:
        check(engine, requests(random.Random(3)))


@pytest.mark.parametrize("draft", ["llama", "qwen35", "mamba2", "lfm2"])
@pytest.mark.parametrize("arch", ["qwen35", "llama"])
@pytest.mark.parametrize("n_parallel", [1, 3])
def test_a_draft_model_of_any_kind(arch: str, draft: str, n_parallel: int, tiny_path: TinyPath) -> None:
    """The draft model is as random as the model: with itself as target it is right, with another wrong."""
    with load(
        tiny_path(arch),
        ("draft-model",),
        n_parallel=n_parallel,
        draft_model=ModelConfig(tiny_path(draft)),
    ) as engine:
        engine._loop.speculator.guards[0].drafter.p_min = 0.0
        wanted = requests(random.Random(5))
        assert check(engine, wanted) > 0
        together = Request(wanted[1].prompt, wanted[1].sampling, max_tokens=30, n=n_parallel, ignore_eos=True)
        events = list(engine.generate(together))
        plain = list(engine.generate(replace(together, speculation=OFF)))
        for choice in range(n_parallel):
            assert _tokens(events, choice) == _tokens(plain, choice)


def _tokens(events: list[object], choice: int) -> list[int]:
    return [info.id for e in events if isinstance(e, Chunk) and e.choice == choice for info in e.tokens]


@pytest.mark.parametrize("arch", ["qwen35", "mamba2", "llama"])
def test_a_model_that_drafts_for_itself_is_always_right(arch: str, tiny_path: TinyPath) -> None:
    """Greedy, the same weights: whatever the memory takes back, the draft model must stay in step."""
    with load(tiny_path(arch), ("draft-model",), draft_model=ModelConfig(tiny_path(arch)), exact=False) as engine:
        engine._loop.speculator.guards[0].drafter.p_min = 0.0
        request = Request("def f(x):", SamplingParams(temperature=0), max_tokens=60, ignore_eos=True)
        _, finish = answer(engine, request)
        assert finish.usage.accepted / finish.usage.drafted > 0.8


@pytest.mark.parametrize("arch", ["qwen35", "mamba2", "llama"])
def test_what_is_left_of_a_guess_that_was_right_so_far_is_not_guessed_again(arch: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), ("draft-model",), draft_model=ModelConfig(tiny_path(arch))) as engine:
        drafter = engine._loop.speculator.guards[0].drafter
        drafter.p_min, drafter._end_tokens = 0.0, frozenset()
        backend, decoded = drafter._backend, []
        decode = backend.decode
        backend.decode = lambda spans: decoded.append(spans) or decode(spans)
        text = engine.tokenize("def f(x):\n    return x\n")

        def draft(tokens: list[int], n_max: int = 6) -> Draft:
            decoded.clear()
            return engine.call(lambda _: drafter.draft([DraftAsk(0, tokens, n_max, p_min=0.0)]))[0]

        first = draft(text)
        # A random model doubts everything: what it guesses ends where all of it is hardly likely any more.
        whole = list(first.tokens)
        assert decoded
        assert math.prod(first.confidence) >= 0.3
        for n in range(len(whole) + 1):
            again = draft([*text, *whole[:n]])
            assert list(again.tokens) == whole[n:]
            assert not decoded, "nothing was computed for it"
        other = (whole[0] + 1) % backend.n_vocab if whole else 5
        draft([*text, other])
        assert decoded, "the text went another way"
        drafter.begin(0, text, "somebody else")
        assert list(draft(text).tokens) == whole
        assert decoded, "another request"


@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_a_guess_that_is_nearly_used_up_is_made_anew(arch: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), ("draft-model",), draft_model=ModelConfig(tiny_path(arch))) as engine:
        drafter = engine._loop.speculator.guards[0].drafter
        drafter.p_min, drafter._end_tokens, drafter.n_max = 0.0, frozenset(), 8
        drafter.choose = lambda logits, ask, drafted: (int(logits.argmax()), 1.0)
        text = engine.tokenize("int a = 0;\n")

        def draft(tokens: list[int], n_max: int = 8) -> list[int]:
            return list(engine.call(lambda _: drafter.draft([DraftAsk(0, tokens, n_max)]))[0].tokens)

        whole = draft(text)
        assert len(whole) == 8
        assert draft([*text, *whole[:4]]) == whole[4:]
        assert draft([*text, *whole[:4]], n_max=2) == whole[4:6], "no more than was asked for"
        more = draft([*text, *whole[:5]])
        assert len(more) == 8
        assert more[:3] == whole[5:]


@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_a_draft_model_reads_only_the_end_of_a_prompt(arch: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), ("draft-model",), draft_model=ModelConfig(tiny_path(arch))) as engine:
        drafter = engine._loop.speculator.guards[0].drafter
        drafter.p_min = 0.0
        prompt = engine.tokenize("for i in range(9):\n    print(i)\n" * 20)
        request = Request(prompt, SamplingParams(temperature=0), max_tokens=20, ignore_eos=True)
        tokens, finish = answer(engine, request)
        assert tokens == answer(engine, replace(request, speculation=OFF))[0]
        assert finish.usage.drafted > 0
        held = engine.call(lambda loop: next(iter(drafter._held.values())))
        assert len(prompt) - drafter.window <= held.start <= len(prompt)
        # Another turn of the same text goes on from there, an edit of it begins anew.
        answer(engine, replace(request, prompt=[*prompt, *tokens, 5]))
        assert engine.call(lambda loop: next(iter(drafter._held.values()))).start == held.start
        edited = [*prompt[: len(prompt) // 2], 7, 8, 9]
        answer(engine, replace(request, prompt=edited))
        assert engine.call(lambda loop: next(iter(drafter._held.values()))).start == len(edited) + 1 - drafter.window


@pytest.mark.parametrize("arch", ["qwen35", "mamba2", "llama"])
def test_a_draft_model_knows_in_hindsight_what_it_would_have_guessed(arch: str, tiny_path: TinyPath) -> None:
    with load(tiny_path(arch), ("draft-model",), draft_model=ModelConfig(tiny_path(arch)), exact=False) as engine:
        drafter = engine._loop.speculator.guards[0].drafter
        drafter.p_min = 0.0
        request = Request("def f(x):", SamplingParams(temperature=0), max_tokens=30, ignore_eos=True)
        text = [*engine.tokenize("def f(x):"), *answer(engine, replace(request, speculation=OFF))[0]]
        asked = DraftAsk(0, text, 4)
        fresh = engine.call(lambda loop: drafter.draft([asked]))

        def looked_back(said: list[int], n: int) -> list[bool]:
            drafter._memory.release(0)
            drafter._held.clear()
            guesses = drafter.hindsight(DraftAsk(0, said, 4), n)
            assert all(0 < p <= 1 for p in guesses.confidence)
            return [guess == token for guess, token in zip(guesses.tokens, said[-len(guesses) :], strict=True)]

        assert engine.call(lambda loop: looked_back(text, 16)) == [True] * 16, "these are the model's own words"
        assert engine.call(lambda loop: drafter.draft([asked])) == fresh, "and it drafts on from there"
        changed = [*text[:-1], (text[-1] + 1) % 100]
        assert engine.call(lambda loop: looked_back(changed, 16)) == [True] * 15 + [False]
        again = engine.call(lambda loop: drafter.hindsight(DraftAsk(0, changed, 4), 16))
        assert list(again.tokens[:-1]) == text[-16:-1], "what it has read before is read again for this"
        drafted = engine.call(lambda loop: drafter.draft([DraftAsk(0, text[:-8], 7)]))[0]
        assert list(drafted.tokens) == text[-8 : -8 + len(drafted)]
        own = engine.call(lambda loop: drafter.hindsight(asked, 8))
        assert list(own.tokens) == text[-8:], "and what it guessed itself and holds already"
        assert len(engine.call(lambda loop: looked_back(text[-3:], 16))) == 2, "of the two there are"


@pytest.mark.parametrize("memory", ["fork", "checkpoint", "ring"])
def test_the_models_own_prediction_layer(memory: str, tiny_path: TinyPath) -> None:
    with load(tiny_path("qwen35-mtp"), ("mtp",), memory=memory) as engine:
        engine._loop.speculator.guards[0].drafter.p_min = 0.0
        assert check(engine, requests(random.Random(7))) > 20


def test_the_prediction_layer_beside_other_slots(tiny_path: TinyPath) -> None:
    with load(tiny_path("qwen35-mtp"), ("mtp",), n_parallel=3) as engine:
        engine._loop.speculator.guards[0].drafter.p_min = 0.0
        request = Request("x = 1\n" * 4, SamplingParams(seed=1), max_tokens=30, n=3, ignore_eos=True)
        events = list(engine.generate(request))
        plain = list(engine.generate(replace(request, speculation=OFF)))
        for choice in range(3):
            assert _tokens(events, choice) == _tokens(plain, choice)


def test_a_draft_model_of_another_vocabulary_is_refused(tiny_path: TinyPath, tmp_path: Path) -> None:
    data = tiny_path("llama").read_bytes()
    other = tmp_path / "other.gguf"
    other.write_bytes(data.replace(b"return", b"retorn"))
    with pytest.raises(ConfigError, match="another vocabulary"):
        load(tiny_path("qwen35"), ("draft-model",), draft_model=ModelConfig(other))


@pytest.mark.parametrize("arch", ["qwen35", "llama"])
def test_no_prediction_layer_is_said(arch: str, tiny_path: TinyPath) -> None:
    with pytest.raises(ConfigError, match="no multi-token-prediction layer"):
        load(tiny_path(arch), ("mtp",))


def test_every_installed_drafter_is_covered() -> None:
    ours = {name for name, entry in installed().items() if entry.dist and entry.dist.name == "foretoken"}
    assert ours == {*TEXT_DRAFTERS, "draft-model", "mtp", "grammar"}


def test_a_draft_model_reads_no_more_than_it_was_trained_on_and_drafts_no_end() -> None:
    draft = ModelConfig(path_of("pico"))
    with load(path_of("mini"), ("draft-model",), draft_model=draft, n_ctx=1024) as engine:
        drafter = engine._loop.speculator.guards[0].drafter
        assert engine.call(lambda loop: drafter._backend.n_ctx) == 256
        assert engine.n_ctx == 1024
        prompt = "<|im_start|>user\nWrite a quicksort in Python.<|im_end|>\n<|im_start|>assistant\n"
        request = Request(prompt, SamplingParams(temperature=0), max_tokens=300, speculation=OFF)
        text = [*engine.tokenize(prompt), *answer(engine, request)[0]]
        assert text[-1] in engine.vocabulary.end_tokens
        last = DraftAsk(0, text[:-4], 16, p_min=0.0)
        (made,) = engine.call(lambda loop: drafter.draft([last]))
        assert made.tokens == tuple(text[-4:-1]), "and not on behind the end"
