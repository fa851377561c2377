"""An engine with a folder: what one knew the next one knows, whatever became of the files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from foretoken.config import CacheConfig, EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.types import Chunk, Finish, Request, SamplingParams, Token, Usage

GREEDY = SamplingParams(temperature=0)


def engine_over(path: Path, folder: Path, **settings: object) -> Engine:
    cache = CacheConfig(64 << 20, 64 << 20, folder, gap=16)
    return Engine.from_config(EngineConfig(ModelConfig(path), n_ctx=512, n_threads=1, cache=cache, **settings))


def ask(engine: Engine, prompt: list[Token], n: int = 24, owner: str = "") -> tuple[list[Token], Usage]:
    tokens: list[Token] = []
    usage = Usage()
    for event in engine.generate(Request(prompt, GREEDY, max_tokens=n, ignore_eos=True, owner=owner)):
        if isinstance(event, Chunk):
            tokens += [info.id for info in event.tokens]
        elif isinstance(event, Finish):
            usage = event.usage
    return tokens, usage


@pytest.mark.parametrize("arch", ["qwen35", "mamba2", "llama"])
def test_a_conversation_goes_on_after_a_restart(arch: str, tiny_path: Callable[..., Path], tmp_path: Path) -> None:
    prompt = list(range(20, 180))
    with engine_over(tiny_path(arch), tmp_path) as engine:
        answer, _ = ask(engine, prompt)
    following = prompt + answer + list(range(5, 15))
    with engine_over(tiny_path(arch), tmp_path) as engine:
        found, usage = ask(engine, following)
        stranger, other = ask(engine, following, owner="somebody else")
        assert engine.call(lambda loop: loop.cache.disk.n_read) > 0  # type: ignore[union-attr]
    with engine_over(tiny_path(arch), tmp_path / "empty") as engine:
        plain, cold = ask(engine, following)
    assert found == plain == stranger
    assert usage.cached_tokens == len(prompt) + len(answer) - 1
    assert cold.cached_tokens == other.cached_tokens == 0


def test_another_model_or_setting_uses_nothing_of_it(
    tiny_path: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = list(range(20, 180))
    with engine_over(tiny_path("qwen35"), tmp_path) as engine:
        ask(engine, prompt)
    others: list[tuple[Path, dict[str, object]]] = [
        (tiny_path("qwen35", "Q4_0"), {}),
        (tiny_path("qwen35"), {"kv_type_k": "bf16", "kv_type_v": "bf16"}),
    ]
    for path, settings in others:
        with caplog.at_level(logging.WARNING), engine_over(path, tmp_path, **settings) as engine:
            assert ask(engine, prompt)[1].cached_tokens == 0
        assert "of another model, library or setting" in caplog.text
        caplog.clear()


def test_damaged_files_cost_time_and_nothing_else(
    tiny_path: Callable[..., Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompt = list(range(20, 180))
    with engine_over(tiny_path("qwen35"), tmp_path) as engine:
        answer, _ = ask(engine, prompt)
    for path in tmp_path.glob("*.state"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    with caplog.at_level(logging.WARNING), engine_over(tiny_path("qwen35"), tmp_path) as engine:
        found, usage = ask(engine, [*prompt, *answer, 5, 6, 7])
        assert usage.cached_tokens == 0
        assert "checksum" in caplog.text
        assert found == ask(engine, [*prompt, *answer, 5, 6, 7], owner="somebody else")[0]
