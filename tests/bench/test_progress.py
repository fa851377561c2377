"""Progress where a bar can move, and where it cannot."""

from __future__ import annotations

import io

from rich.console import Console

from foretoken.bench.progress import counting


def shown(n_steps: int, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100)
    with counting(console, n_steps) as say:
        for step in range(n_steps):
            say(f"step {step}")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_a_few_lines() -> None:
    assert shown(200, terminal=False).splitlines() == [f"{n}/200 step {n}" for n in range(0, 200, 20)]
    assert len(shown(3, terminal=False).splitlines()) == 3


def test_a_terminal_gets_a_bar() -> None:
    assert "/50" in shown(50, terminal=True)
