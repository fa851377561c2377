"""What a step costs is measured once and remembered; broken memories of it are measured again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foretoken import machine
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine import calibration
from foretoken.engine.assembly import Assembly, assemble
from foretoken.llama import library


@pytest.fixture
def assembly(tiny_path: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Assembly]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "load", lambda: 0.0)
    assembly = assemble(EngineConfig(ModelConfig(tiny_path("qwen35")), n_ctx=256, n_threads=1))
    yield assembly
    assembly.close()


def stored(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "foretoken" / "calibration").glob("*"))


def test_it_is_measured_once(assembly: Assembly, tmp_path: Path) -> None:
    table = calibration.calibrated(assembly)
    assert list(table) == [width for width in calibration.WIDTHS if width <= 128]
    assert all(ms > 0 for ms in table.values())
    assert calibration.calibrated(assembly) == table, "remembered"
    assert len(stored(tmp_path)) == 1
    assert assembly.context.length(0) == 0, "nothing is left in the context"
    calibration.calibrated(assembly, again=True)
    assert len(stored(tmp_path)) == 1


def test_widths_are_timed_behind_a_long_context_too(assembly: Assembly) -> None:
    table = calibration.measure(assembly.context, assembly.memory)
    n_past, behind = calibration.measure_behind(assembly.context, assembly.memory, table)
    assert n_past == 256 - 64, "as much as the context holds"
    assert list(behind) == [1, 2, 4, 8, 16, 32, 64]
    assert all(ms > 0 for ms in behind.values())
    assert assembly.context.length(0) == 0, "nothing is left in the context"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ms": 3}', '{"ms": {"a": "b"}}', "\x00"])
def test_a_broken_memory_of_it_is_ignored(
    content: str, assembly: Assembly, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    calibration.calibrated(assembly)
    (path,) = stored(tmp_path)
    path.write_text(content)
    with caplog.at_level(logging.WARNING):
        assert calibration.calibrated(assembly)
    assert "ignoring the calibration" in caplog.text
    assert json.loads(path.read_text())["ms"]


def test_other_settings_are_measured_on_their_own(assembly: Assembly, tmp_path: Path) -> None:
    calibration.calibrated(assembly)
    other = assemble(EngineConfig(ModelConfig(assembly.model.path), n_ctx=256, n_threads=2))
    calibration.calibrated(other)
    other.close()
    assert len(stored(tmp_path)) == 2


def test_another_build_of_the_library_is_measured_on_its_own(
    assembly: Assembly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibration.calibrated(assembly)
    build = library.build()
    assert any("ggml-cpu" in name for name, _, _ in build)
    monkeypatch.setattr(library, "build", lambda: build[1:])
    calibration.calibrated(assembly)
    assert len(stored(tmp_path)) == 2


def test_a_folder_that_cannot_be_written_to_is_no_disaster(
    assembly: Assembly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    assert calibration.calibrated(assembly)
    assert "cannot remember" in caplog.text


def test_a_busy_machine_is_measured_but_not_remembered(
    assembly: Assembly, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine, "load", lambda: 1.0)
    assert calibration.calibrated(assembly)
    assert not stored(tmp_path)
    assert "not remembered" in caplog.text


def test_exact_models_have_one_class_of_bits(assembly: Assembly, tiny_path: Callable[..., Path]) -> None:
    widths = [1, 2, 4, 9, 33, 64]
    assert calibration.bit_classes(assembly.context, assembly.memory, widths) == [widths]
    loose = assemble(EngineConfig(ModelConfig(tiny_path("qwen35", "F16")), n_ctx=256, n_threads=1))
    assert len(calibration.bit_classes(loose.context, loose.memory, widths)) > 1
    assert not loose.exact
    loose.close()
