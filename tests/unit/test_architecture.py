"""The rules that keep the folders apart, and the names that others build on."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import foretoken

SOURCE = Path(foretoken.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Every module a file imports, by its full name."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def below(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def files_in(*folders: str) -> list[Path]:
    return [path for path in FILES if any((SOURCE / folder) in path.parents for folder in folders)]


def test_only_llama_touches_ctypes() -> None:
    for path in FILES:
        if (SOURCE / "llama") not in path.parents:
            assert not {m for m in imports(path) if below(m, "ctypes", "llama_cpp")}, path


def test_drafters_know_neither_library_nor_engine() -> None:
    for path in files_in("speculation"):
        assert not {m for m in imports(path) if below(m, "foretoken.llama", "foretoken.engine")}, path


def test_memory_knows_no_library() -> None:
    for path in files_in("memory"):
        assert not {m for m in imports(path) if below(m, "foretoken.llama", "foretoken.engine")}, path


def test_the_server_knows_nothing_of_speculation_or_memory() -> None:
    for path in files_in("server"):
        inner = {m for m in imports(path) if below(m, "foretoken.speculation", "foretoken.memory")}
        assert not inner, path
        llama = {m for m in imports(path) if below(m, "foretoken.llama")}
        assert all(below(m, "foretoken.llama.vocabulary") or m == "foretoken.llama" for m in llama), path


@pytest.mark.parametrize("word", ["if speculative", "is_replay", "replaying", "spec_enabled"])
def test_the_engine_has_no_special_case_for_speculation(word: str) -> None:
    for path in files_in("engine"):
        assert word not in path.read_text(), path


def test_files_stay_small() -> None:
    long = {str(path.relative_to(SOURCE)): n for path in FILES if (n := len(path.read_text().splitlines())) > 350}
    assert not long


def test_public_names() -> None:
    assert sorted(foretoken.__all__) == [
        "Chunk",
        "Constraint",
        "Engine",
        "Event",
        "Finish",
        "ForetokenError",
        "Request",
        "SamplingParams",
        "SpeculationParams",
        "TokenInfo",
        "Usage",
    ]
    assert all(hasattr(foretoken, name) for name in foretoken.__all__)
