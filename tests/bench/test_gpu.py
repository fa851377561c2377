"""The benchmark for GPUs, tried in small on a CPU: shapes, scripted text, the run that can be taken up again."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf.quants import dequantize

from foretoken.bench import blocks, shapes
from foretoken.bench.gpu import costs, recordings, report, run
from foretoken.bench.gpu.scripted import scripted
from foretoken.config import ModelConfig
from foretoken.engine.engine import Engine
from foretoken.errors import ConfigError
from foretoken.llama.model import Model
from foretoken.types import Chunk, Request, SamplingParams, SpeculationParams


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shapes.write(tmp_path_factory.mktemp("toy") / "toy.gguf", "toy-qwen3.5-27b")


@pytest.mark.parametrize(("pack", "kind", "error"), [(blocks._q4_k, 12, 0.1), (blocks._q6_k, 14, 0.03)])
def test_blocks_are_what_the_library_reads(pack, kind: int, error: float) -> None:
    weights = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
    read = dequantize(pack(weights), gguf.GGMLQuantizationType(kind))
    assert np.sqrt(((read - weights) ** 2).mean()) < error


@pytest.mark.parametrize("name", list(shapes.SHAPES))
def test_every_shape_loads_in_small(name: str, tmp_path: Path) -> None:
    with Model(ModelConfig(shapes.write(tmp_path / "m.gguf", f"toy-{name}"))) as model:
        assert model.recurrent
        assert model.architecture == shapes.find(name).architecture


def test_a_true_shape_has_the_size_of_the_real_model() -> None:
    weights = {
        # A model is called by its size without the layer that predicts the token after next.
        name: sum(np.prod(tensor.dims) for tensor in shapes._tensors(replace(shape, n_mtp=0))) / 1e9
        for name, shape in shapes.SHAPES.items()
    }
    assert weights == pytest.approx(
        {"qwen3.5-0.8b": 0.75, "qwen3.5-9b": 8.95, "qwen3.5-27b": 26.9, "qwen3.5-35b-a3b": 34.7}, rel=0.02
    )


def test_unknown_shapes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are qwen"):
        shapes.write(tmp_path / "m.gguf", "qwen9")


def test_the_text_is_the_script_with_drafts_and_without(toy: Path) -> None:
    script = [5, 6, 7, 8] * 12
    with Engine.load(toy, n_ctx=256, n_threads=1) as engine, scripted(engine, {3: script}):
        for wishes in (SpeculationParams(), SpeculationParams(drafters=())):
            request = Request([5, 6, 7, 8] * 4, SamplingParams(temperature=0, seed=3), len(script), speculation=wishes)
            events = list(engine.generate(request))
            assert [info.id for event in events if isinstance(event, Chunk) for info in event.tokens] == script


def test_afterwards_the_model_speaks_for_itself(toy: Path) -> None:
    request = Request([5, 6], SamplingParams(temperature=0, seed=3), 4)
    with Engine.load(toy, n_ctx=64, n_threads=1) as engine:
        before = engine.complete(request)
        with scripted(engine, {3: [1, 2, 3, 4]}):
            assert engine.complete(request) != before
        assert engine.complete(request) == before


def test_recordings_say_who_spoke_and_are_tokens_in_any_vocabulary(toy: Path) -> None:
    said = recordings.load()
    assert {one.workload for one in said} == set(recordings.WORKLOADS)
    assert all(one.model and one.answer and "<|im_end|>" not in one.answer for one in said)


def test_a_run_is_taken_up_where_it_ended(tmp_path: Path) -> None:
    path, deadline = tmp_path / "gpu.json", time.monotonic() + 100
    keeper = run.Keeper(path, deadline)
    keeper.part("m", "one", lambda: 1)
    keeper.part("m", "late", lambda: 2, seconds=1000)
    again = run.Keeper(path, deadline)
    again.part("m", "one", lambda: pytest.fail("measured twice"))
    again.part("m", "late", lambda: 3)
    parts = json.loads(path.read_text())["m"]
    assert [parts[name]["result"] for name in ("one", "late")] == [1, 3]
    assert not again.missing("m", ["one", "late"])


def test_the_prediction_layer_is_timed_and_reported(toy: Path) -> None:
    with Model(ModelConfig(toy, load_mtp=True)) as model:
        found = costs.mtp(model, 64)
    assert set(found["drafts"]) == {1, 2, 3, 4}
    assert all(one["draft_ms"] > 0 and one["step_ms"] > 0 for one in found["drafts"].values())
    facts = {"date": "", "gpu": "", "cpu": "", "library": ""}
    text = "\n".join(report.tables({"machine": facts, "toy": {"mtp": {"result": found}}}))
    assert "90%: " in text


def test_the_report_shows_what_a_run_kept() -> None:
    kept = json.loads((Path(__file__).parents[2] / "docs/results/gpu-1.json").read_text())
    text = "\n".join(report.tables(kept))
    assert "| qwen3.5-27b | code-edit | 1 | 480 | 80.9 | 616.3 | 7.62 |" in text
    assert "llama-server" not in text
    assert "| qwen3.5-27b | fork | 19 | 39 |" in text
