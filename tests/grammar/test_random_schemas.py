"""Whatever the schema, the answer is valid, and speculation changes no token of it.

FORETOKEN_SLOW=1 tries 1,000 schemas on every model instead of some.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import jsonschema
import pytest
from msgspec.structs import replace

from foretoken import Engine, SamplingParams
from foretoken.config import SpeculationConfig
from foretoken.models import path_of
from foretoken.types import OFF
from tests.grammar.asking import GREEDY, ask, both, keeping_to
from tests.grammar.schemas import random_schema

SLOW = bool(os.environ.get("FORETOKEN_SLOW"))
N_SCHEMAS = {"qwen35": 150, "llama": 50, "nano": 50}


@pytest.mark.timeout(3600 if SLOW else 300)
@pytest.mark.parametrize("model", N_SCHEMAS)
def test_random_schemas(model: str, tiny_path: Callable[..., Path]) -> None:
    path = path_of(model) if model == "nano" else tiny_path(model)
    # Everything offered is verified: the more is drafted, the more could go wrong.
    plan = SpeculationConfig(plan="fixed", n_max=16)
    with Engine.load(path, n_ctx=1024, n_threads=1, speculation=plan) as engine:
        for seed in range(1000 if SLOW else N_SCHEMAS[model]):
            schema = random_schema(Random(seed))
            params = GREEDY if seed % 2 else SamplingParams(temperature=1.0, seed=seed)
            speculated, _ = both(engine, keeping_to(schema, params=params))
            assert speculated.finish.reason == "stop", (seed, schema, speculated)
            jsonschema.validate(json.loads(speculated.text), schema, format_checker=jsonschema.FormatChecker())


def test_answers_side_by_side_are_those_given_alone(tiny_path: Callable[..., Path]) -> None:
    wanted = [
        keeping_to(random_schema(Random(seed)), params=SamplingParams(temperature=1.0, seed=seed)) for seed in range(16)
    ]
    with Engine.load(tiny_path("qwen35"), n_parallel=4, n_ctx=1024, n_threads=1) as engine:
        alone = [ask(engine, replace(request, speculation=OFF)).tokens for request in wanted]
        with ThreadPoolExecutor(8) as threads:
            together = [answer.tokens for answer in threads.map(lambda request: ask(engine, request), wanted)]
    assert together == alone
