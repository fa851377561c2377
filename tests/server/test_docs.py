"""The examples of the documentation, run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from foretoken.cli.serve import serve
from tests.server.running import TIMEOUT, RunningServer

DOCS = Path(__file__).parents[2] / "docs"
PAGES = "".join((DOCS / name).read_text(encoding="utf-8") for name in ("api.md", "clients.md"))
EXAMPLES = re.findall(r"```(python|bash)\n(.*?)```", PAGES, re.DOTALL)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_examples_of_the_interface(server: RunningServer, number: int) -> None:
    language, source = EXAMPLES[number]
    source = source.replace("http://127.0.0.1:8080", server.url)
    command = [sys.executable, "-c", source] if language == "python" else ["bash", "-ec", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * TIMEOUT)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert '"error":{' not in done.stdout


def test_options_in_the_documentation_exist() -> None:
    text = (DOCS / "operations.md").read_text(encoding="utf-8")
    names = {name.replace("-", "_") for name in re.findall(r"`--([a-z-]+)", text)}
    renamed = {"help": None, "config": "settings_file"}
    known = set(serve.__annotations__)
    missing = {name for name in names if renamed.get(name, name) not in known and name != "help"}
    assert not missing
