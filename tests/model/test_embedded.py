"""The embedded model: real text on a real hybrid, the same with every drafter, alone and in company."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from foretoken import Chunk, Engine, Finish, Request, SamplingParams
from foretoken.chat import ChatTemplate
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.models import MODELS, is_intact, path_of
from foretoken.types import OFF, SpeculationParams

GREEDY = SamplingParams(temperature=0)
SEEDED = SamplingParams(temperature=0.7, seed=3407)
DRAFTERS = (
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
    "suffix",
    "copy",
    "draft-model",
    "mtp",
)
TURNS = (
    "Write a quicksort in Python.",
    "Now rename the function to sort_numbers.",
    "Add a docstring to the function.",
    "Repeat the file unchanged.",
)
"""A four-turn workload in the manner of the seeds: every answer gives the program again."""


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    speculation = SpeculationConfig(DRAFTERS, plan="fixed", draft_model=ModelConfig(path_of("nano")))
    config = EngineConfig(
        ModelConfig(path_of("mini")),
        n_parallel=4,
        n_ctx=2048,
        n_threads=1,
        speculation=speculation,
    )
    with Engine.from_config(config) as engine:
        yield engine


def chat(engine: Engine, *messages: str) -> str:
    roles = ("user", "assistant")
    template = ChatTemplate(engine.assembly.model.chat_template)
    return template.render([{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)])


def answer(engine: Engine, request: Request) -> tuple[str, Finish]:
    events = list(engine.generate(request))
    assert isinstance(events[-1], Finish)
    return "".join(event.text for event in events if isinstance(event, Chunk)), events[-1]


@pytest.mark.parametrize("name", MODELS)
def test_the_file_is_what_was_shipped(name: str) -> None:
    assert is_intact(name)


def test_it_writes_a_quicksort_that_sorts(engine: Engine) -> None:
    text, finish = answer(engine, Request(chat(engine, TURNS[0]), GREEDY, max_tokens=300))
    assert finish.reason == "stop"
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert code is not None, text
    scope: dict[str, object] = {}
    exec(code.group(1), scope)
    sort = next(value for name, value in scope.items() if callable(value) and not name.startswith("__"))
    values = [3, 1, 2, 3, 0, -5, 9, 9, 4]
    result = sort(values)
    assert (values if result is None else result) == sorted([3, 1, 2, 3, 0, -5, 9, 9, 4])


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED], ids=["greedy", "seeded"])
def test_four_turns_with_every_drafter(engine: Engine, sampling: SamplingParams) -> None:
    messages: list[str] = []
    accepted = dict.fromkeys(DRAFTERS, 0)
    for turn in TURNS if sampling is GREEDY else TURNS[:2]:
        messages.append(turn)
        request = Request(chat(engine, *messages), sampling, max_tokens=160, speculation=OFF)
        plain, _ = answer(engine, request)
        for drafter in DRAFTERS:
            wish = SpeculationParams((drafter,), n_max=8)
            text, finish = answer(engine, replace(request, speculation=wish, owner=drafter))
            assert text == plain, drafter
            usage = finish.usage.drafters[drafter]
            assert usage.offered >= usage.verified
            assert usage.verified >= usage.accepted
            assert finish.usage.completion_tokens - finish.usage.accepted <= finish.usage.steps
            accepted[drafter] += usage.accepted
        messages.append(plain)
    if sampling is GREEDY:
        assert sum(n > 0 for n in accepted.values()) >= 4, accepted


def test_all_at_once_equals_one_after_another(engine: Engine) -> None:
    prompts = [chat(engine, f"Write a quicksort in {language}.") for language in ("C", "Java", "Python")]
    requests = [Request(prompt, GREEDY, max_tokens=120) for prompt in (*prompts, "import os\n")]
    alone = [answer(engine, replace(request, speculation=OFF))[0] for request in requests]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda request: answer(engine, request)[0], requests))
    assert together == alone
