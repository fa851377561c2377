"""Drafters that nobody in the project wrote, installed as a stranger would: the example, and the one in the docs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def install(package: Path, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation",
               "--disable-pip-version-check", "--target", str(target), str(package)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def foretoken(plugins: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "foretoken", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(plugins), "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)


def from_the_docs(folder: Path) -> Path:
    """The package that docs/drafters.md tells a reader to write."""
    page = (ROOT / "docs" / "drafters.md").read_text()
    blocks = dict(re.findall(r"```(toml|python)\n(.*?)```", page, re.DOTALL))
    package = folder / "my-drafter"
    package.mkdir()
    (package / "pyproject.toml").write_text(blocks["toml"])
    (package / "my_drafter.py").write_text(blocks["python"])
    return package


@pytest.mark.parametrize(("name", "option"), [("lines", "n-key"), ("again", "n")])
def test_a_strangers_drafter_works(name: str, option: str, tmp_path: Path, tiny_path: Callable[..., Path]) -> None:
    package = ROOT / "examples" / "foretoken-lines" if name == "lines" else from_the_docs(tmp_path)
    plugins = tmp_path / "plugins"
    install(package, plugins)
    listed = {info["name"]: info for info in json.loads(foretoken(plugins, "drafters", "--json").stdout)}
    assert listed[name]["package"] in ("foretoken-lines", "my-drafter")
    arguments = ("run", "-m", tiny_path("qwen35"), "-t", 1, "-c", 512, "-p", "la la la la la", "-n", 200, "--temp", 0,
                 "--ignore-eos", "--json", "--plan", "fixed")  # fmt: skip
    done = foretoken(plugins, *arguments, "--spec-type", name, f"--spec-{name}-{option}", 1)
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["usage"]["drafters"][name]["verified"] > 0
    plain = json.loads(foretoken(plugins, *arguments, "--spec-type", "none").stdout)
    assert record["text"] == plain["text"]
