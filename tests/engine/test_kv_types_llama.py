"""Which types keys and values get, and that a row behind a long context has the same bits in every company."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foretoken.backend import Span
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.assembly import Assembly, assemble

N_CTX = 1024
LONG = 700
"""Further than the library's other path for single rows begins (512 cells)."""


def opened(path: Path, **settings: object) -> Assembly:
    return assemble(EngineConfig(ModelConfig(path), **{"n_ctx": N_CTX, "n_threads": 1, **settings}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "types"),
    [
        ({}, ("q8_0", "f16")),
        ({"exact": False}, ("f16", "f16")),
        ({"kv_type_k": "f16"}, ("f16", "q8_0")),
        ({"kv_type_k": "bf16"}, ("bf16", "f16")),
        ({"kv_type_v": "q4_0"}, ("q8_0", "q4_0")),
        ({"kv_type_k": "q8_0", "kv_type_v": "q8_0"}, ("q8_0", "q8_0")),
    ],
)
def test_types_are_chosen_around_what_a_person_chose(
    settings: dict[str, object], types: tuple[str, str], tiny_path: Callable[..., Path]
) -> None:
    assembly = opened(tiny_path("qwen35"), **settings)
    try:
        config = assembly.context.config
        assert (config.kv_type_k, config.kv_type_v) == types
    finally:
        assembly.close()


@pytest.mark.parametrize("arch", ["llama", "qwen35"])
def test_long_contexts_are_exact(arch: str, tiny_path: Callable[..., Path]) -> None:
    def rows(widths: Callable[[], int]) -> list[bytes]:
        assembly = opened(tiny_path(arch))
        try:
            assert assembly.exact
            context, found = assembly.context, []
            while len(found) < LONG:
                n = min(widths(), LONG - len(found))
                context.decode([Span(0, len(found), tokens[len(found) : len(found) + n], n, 0)])
                found += [np.asarray(context.logits(row)).tobytes() for row in range(n)]
            return found
        finally:
            assembly.close()

    rng = random.Random(arch)
    tokens = [rng.randrange(3, 250) for _ in range(LONG)]
    assert rows(lambda: rng.choice((1, 2, 3, 5, 8, 13, 33, 70))) == rows(lambda: 1)
