"""A progress bar for runs whose number of steps is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_LINES = 10
"""Lines that a run writes to a file or a pipe, where a bar cannot move."""


@contextmanager
def counting(console: Console, n_steps: int) -> Iterator[Callable[[str], None]]:
    """Yields what to call before every step with its name; the bar goes away at the end."""
    if not console.is_terminal:
        yield _lines(console, n_steps)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("starting", total=n_steps, completed=-1)
        yield lambda step: progress.update(task, advance=1, description=step)


def _lines(console: Console, n_steps: int) -> Callable[[str], None]:
    done, every = count(), max(1, n_steps // _LINES)

    def say(step: str) -> None:
        if (n := next(done)) % every == 0:
            console.print(f"{n}/{n_steps} {step}", markup=False, highlight=False)

    return say
