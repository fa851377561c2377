"""The server knows nothing of speculation, memory or ctypes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import foretoken.server

FILES = sorted(Path(foretoken.server.__path__[0]).rglob("*.py"))
FORBIDDEN = ("foretoken.speculation", "foretoken.memory", "foretoken.llama", "ctypes", "llama_cpp")
ALLOWED = ("foretoken.llama.vocabulary",)


def imported(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_server_imports(file: Path) -> None:
    for name in imported(file):
        if not name.startswith(ALLOWED):
            assert not name.startswith(FORBIDDEN), f"{file.name} imports {name}"
