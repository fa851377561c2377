"""The engine as a library user sees it: threads, event loops, errors."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foretoken import Chunk, Engine, Finish, Request, SamplingParams
from foretoken.config import SpeculationConfig
from foretoken.errors import ConfigError, EngineStopped, ForetokenError, InvalidRequest, PromptTooLong

GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def engine(tiny_path: Callable[..., Path]) -> Iterator[Engine]:
    with Engine.load(tiny_path("qwen35"), n_parallel=2, n_ctx=256, n_threads=1, check_integrity=True) as engine:
        yield engine


def tokens_of(events: list[object]) -> list[int]:
    return [info.id for event in events if isinstance(event, Chunk) for info in event.tokens]


def test_generate_streams_and_ends(engine: Engine) -> None:
    events = list(engine.generate(Request("def add(a, b):", GREEDY, max_tokens=12, ignore_eos=True)))
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "length"
    usage = events[-1].usage
    assert (usage.completion_tokens, usage.prompt_tokens) == (12, len(engine.tokenize("def add(a, b):")))
    assert usage.prompt_ms > 0
    assert usage.generation_ms > 0
    assert "".join(e.text for e in events[:-1]) == engine.detokenize(tokens_of(events))


def test_the_async_twin_says_the_same(engine: Engine) -> None:
    request = Request("class A:", GREEDY, max_tokens=12, ignore_eos=True)

    async def collect() -> list[object]:
        return [event async for event in engine.agenerate(request)]

    async def both() -> tuple[list[object], list[object]]:
        return await asyncio.gather(collect(), collect())

    first, second = asyncio.run(both())
    assert tokens_of(first) == tokens_of(second) == tokens_of(list(engine.generate(request)))


def test_many_threads_get_the_answers_they_would_get_alone(engine: Engine) -> None:
    wanted = [Request(f"value = {i}", SamplingParams(seed=i), max_tokens=15, ignore_eos=True) for i in range(8)]
    alone = [tokens_of(list(engine.generate(request))) for request in wanted]
    together: dict[int, list[int]] = {}

    def ask(i: int) -> None:
        together[i] = tokens_of(list(engine.generate(wanted[i])))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[i] for i in range(8)] == alone


def test_leaving_the_loop_cancels(engine: Engine) -> None:
    stream = engine.generate(Request("x", GREEDY, ignore_eos=True))
    next(stream)
    stream.close()
    for _ in range(200):
        if engine.call(lambda loop: loop.idle):
            return
    raise AssertionError("the session is still running")


def test_several_choices(engine: Engine) -> None:
    request = Request("list(", SamplingParams(temperature=1.5, seed=3), max_tokens=8, n=3, ignore_eos=True)
    events = list(engine.generate(request))
    assert sorted(event.choice for event in events if isinstance(event, Finish)) == [0, 1, 2]
    texts = {c: "".join(e.text for e in events if isinstance(e, Chunk) and e.choice == c) for c in range(3)}
    assert len(set(texts.values())) > 1


BAD_REQUESTS: dict[str, tuple[Request, type[ForetokenError], str]] = {
    "empty prompt": (Request([]), InvalidRequest, "empty"),
    "empty text": (Request(""), InvalidRequest, "empty"),
    "too long": (Request([1] * 1000), PromptTooLong, "1000 tokens"),
    "token too large": (Request([1, 10**6]), InvalidRequest, "not in the vocabulary"),
    "token negative": (Request([-1]), InvalidRequest, "not in the vocabulary"),
    "token not a number": (Request([1, "a"]), InvalidRequest, "neither"),
    "invalid bytes": (Request(b"abc\xff\xfe"), InvalidRequest, "UTF-8"),
    "lone surrogate": (Request("a\ud800"), InvalidRequest, "UTF-8"),
    "negative length": (Request([1], max_tokens=-1), InvalidRequest, "max_tokens"),
    "no choices": (Request([1], n=0), InvalidRequest, "n must be"),
    "empty stop": (Request([1], stop=("",)), InvalidRequest, "stop"),
    "nan": (Request([1], SamplingParams(temperature=math.nan)), InvalidRequest, "temperature"),
    "bias unknown": (Request([1], SamplingParams(logit_bias={10**7: 1.0})), InvalidRequest, "vocabulary"),
    "everything banned": (Request([1], SamplingParams(banned=tuple(range(2048)))), InvalidRequest, "banned"),
    "penalty": (Request([1], SamplingParams(repeat_penalty=0)), InvalidRequest, "repeat_penalty"),
    "time": (Request([1], time_limit=0), InvalidRequest, "time_limit"),
    "logprobs": (Request([1], logprobs=10**6), InvalidRequest, "logprobs"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_bad_requests_are_refused_with_a_reason(engine: Engine, name: str) -> None:
    request, error, words = BAD_REQUESTS[name]
    with pytest.raises(error, match=words):
        next(engine.generate(request))
    assert len(tokens_of(list(engine.generate(Request([5], GREEDY, max_tokens=2, ignore_eos=True))))) == 2


def test_nothing_wanted_and_a_prompt_that_fills_the_context(engine: Engine) -> None:
    (finish,) = engine.generate(Request("abc", max_tokens=0))
    assert finish.reason == "length"
    events = list(engine.generate(Request([7] * engine.n_ctx, GREEDY, ignore_eos=True)))
    assert events[-1].reason == "context"
    assert len(tokens_of(events)) == 1


def test_closing_ends_what_is_running(tiny_path: Callable[..., Path]) -> None:
    engine = Engine.load(tiny_path("llama"), n_ctx=2048, n_threads=1)
    events: list[object] = []
    started = threading.Event()

    def ask() -> None:
        for event in engine.generate(Request("x", GREEDY, ignore_eos=True)):
            events.append(event)
            started.set()

    thread = threading.Thread(target=ask)
    thread.start()
    started.wait()
    engine.close()
    thread.join()
    assert isinstance(events[-1], Finish)
    assert events[-1].reason == "error"
    assert "closed" in events[-1].error
    with pytest.raises(EngineStopped, match="closed"):
        next(engine.generate(Request("x")))


def test_a_bug_in_the_loop_does_not_hang_anyone(
    tiny_path: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Engine.load(tiny_path("llama"), n_ctx=256, n_threads=1) as engine:
        engine.call(lambda loop: monkeypatch.setattr(loop, "_settle", lambda part: 1 / 0))
        events = list(engine.generate(Request("x", GREEDY)))
        assert "ZeroDivisionError" in events[-1].error
        with pytest.raises(EngineStopped, match="died"):
            next(engine.generate(Request("x")))


@pytest.mark.parametrize(
    ("arch", "settings", "words"),
    [
        ("llama", {"memory": "fork"}, "trim is exact and free"),
        ("llama", {"memory": "ring"}, "trim is exact and free"),
        ("qwen35", {"memory": "trim"}, "cannot be trimmed"),
        ("qwen35", {"memory": "ring", "n_parallel": 2}, "mixes up"),
        ("qwen35", {"memory": "magic"}, "choose one of auto, trim"),
        ("qwen3next", {"memory": "ring"}, "no memory works"),
        ("qwen35", {"kv_type_k": "q9"}, "choose one of f32"),
        ("qwen35", {"n_parallel": 0}, "n_parallel"),
        ("qwen35", {"n_ctx": -5}, "context"),
    ],
)
def test_wrong_settings_are_refused_with_the_reason(
    arch: str, settings: dict[str, object], words: str, tiny_path: Callable[..., Path]
) -> None:
    with pytest.raises(ConfigError, match=words):
        Engine.load(tiny_path(arch), **{"n_ctx": 256, "n_threads": 1, **settings})


@pytest.mark.parametrize(
    ("arch", "settings", "memory", "exact"),
    [
        ("llama", {}, {"trim"}, True),
        ("llama", {"n_parallel": 4}, {"trim"}, True),
        ("qwen35", {}, {"fork"}, True),
        ("qwen35", {"n_parallel": 4}, {"checkpoint", "checkpoint-host"}, True),
        ("qwen35", {"n_parallel": 4, "exact": False}, {"fork"}, False),
        ("mamba2", {}, {"fork"}, True),
        ("qwen35", {"memory": "ring"}, {"ring"}, True),
        ("qwen35", {"memory": "checkpoint-host"}, {"checkpoint-host"}, True),
    ],
)
def test_the_probe_chooses_what_keeps_the_promise(
    arch: str, settings: dict[str, object], memory: set[str], exact: bool, tiny_path: Callable[..., Path]
) -> None:
    with Engine.load(tiny_path(arch), **{"n_ctx": 256, "n_threads": 1, **settings}) as engine:
        assert engine.assembly.memory.name in memory
        assert engine.assembly.exact is exact
        assert ("exact" if exact else "fast") in engine.assembly.describe()


def test_control_tokens_are_text_only_where_they_are_asked_for(engine: Engine) -> None:
    marker = engine.tokenize("<|im_start|>")[-1]
    forced = SamplingParams(temperature=0, logit_bias={marker: 1e4})
    hidden, shown = (
        list(engine.generate(Request("def", forced, max_tokens=3, shown=tokens))) for tokens in ((), (marker,))
    )
    assert tokens_of(hidden) == tokens_of(shown) == [marker] * 3
    assert "".join(event.text for event in hidden if isinstance(event, Chunk)) == ""
    assert "".join(event.text for event in shown if isinstance(event, Chunk)) == "<|im_start|>" * 3


def test_exactness_that_is_insisted_on_is_kept_whatever_it_costs(tiny_path: Callable[..., Path]) -> None:
    """F16 weights give rows other bits in company: then there is no company."""
    path = tiny_path("qwen35", "F16")
    prompts = [f"def add_{i}(a, b):" * (i + 1) for i in range(3)]
    requests = [Request(prompt, GREEDY, max_tokens=48, ignore_eos=True) for prompt in prompts]
    with Engine.load(path, n_ctx=512, n_threads=1, speculation=SpeculationConfig(drafters=())) as engine:
        assert not engine.assembly.exact
        plain = [tokens_of(list(engine.generate(request))) for request in requests]
    with Engine.load(path, n_ctx=512, n_threads=1, n_parallel=4, exact=True) as engine:
        assert "one request at a time and no drafts" in engine.assembly.describe()
        with ThreadPoolExecutor(6) as pool:
            together = list(pool.map(lambda request: list(engine.generate(request)), requests * 2))
    assert [tokens_of(events) for events in together] == plain * 2
    assert all(event.usage.drafted == 0 for events in together for event in events if isinstance(event, Finish))
