"""`foretoken bench run`: is it faster? Workloads, plain against speculated, with the limit."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from typer import Option

from foretoken import machine
from foretoken.bench import suite, workloads
from foretoken.bench.chart import svg
from foretoken.bench.compare import Result, share_of_limit
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED
from foretoken.bench.progress import counting
from foretoken.cli import options
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.results import WIDTH
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.errors import ConfigError

_SPECIAL = (PLAIN, SPECULATED, LIMIT)
_KEEP = ("workload", "ratio")

Names = Annotated[
    list[str] | None,
    Option("-w", "--workload", help=f"Only this one; may be given several times: {', '.join(workloads.names())}."),
]
Slots = Annotated[str, Option("--slots", help="Numbers of requests at once, comma-separated.")]
Rounds = Annotated[int, Option("--rounds", min=1, help="How often everything is asked; intervals need two.")]
Limit = Annotated[int | None, Option("-n", "--predict", min=2, help="Tokens of an answer at most.", show_default=False)]
Against = Annotated[
    list[str] | None, Option("--against", metavar="URL", help="An OpenAI-compatible server to measure as well.")
]
Labels = Annotated[list[str] | None, Option("--label", help="Its name in the table, in the same order.")]
Chart = Annotated[Path | None, Option("--chart", help="Write an SVG chart to a file.")]
Anyway = Annotated[bool, Option("--anyway", help="Measure on a busy machine too.")]


@takes_engine(n_ctx=4096)
def bench_run(
    config: EngineConfig,
    workload: Names = None,
    slots: Slots = "1,4",
    rounds: Rounds = 5,
    max_tokens: Limit = None,
    against: Against = None,
    label: Labels = None,
    anyway: Anyway = False,
    as_json: options.Json = False,
    out: options.OutPath = None,
    chart: Chart = None,
) -> None:
    """Workloads plainly, speculated and with an oracle that knows the text.

    The three answer at once, step by step on one thread: whoever has said least steps next, and each has a clock that
    runs in its own steps only. So a machine that is slow for a moment is slow for all three. Each has a context of its
    own. Other servers (--against) are asked whole requests, in turns with the three.
    """
    show_library_log(verbose=False)
    console = Console(stderr=True)
    todo = suite.Plan(
        tuple(workloads.load_all(workload)), numbers(slots, "--slots"), rounds, max_tokens, labelled(against, label)
    )
    refuse_when_loaded(console, anyway)
    with counting(console, todo.n_steps) as say:
        report = suite.run(config, todo, say)
    _finish(report, f"foretoken: {config.model.path.name}, {config.n_threads} threads", as_json, out, chart)


def refuse_when_loaded(console: Console, anyway: bool) -> None:
    """Threads spin at barriers and wait for their core: timings on a busy machine are worth nothing."""
    if (load := machine.load()) <= machine.MAX_LOAD:
        return
    console.print(f"[bold red]other programs use {load:.1f} cores: these timings will be wrong[/]")
    if not anyway:
        console.print("stop them and try again, or measure all the same with --anyway")
        raise typer.Exit(1)


def tables(results: Sequence[Result], title: str) -> list[Table]:
    """What a person wants to see: speeds, the ratio, and how near to the limit it is."""
    others = [label for label in results[0].paces if label not in _SPECIAL] if results else []
    table = Table(title=title, box=SIMPLE)
    for heading in ("workload", "slots", "tokens", "plain t/s", "spec. t/s", "ratio", "limit", "of limit",
                    "accepted", "saved ms", "same text", *others):  # fmt: skip
        table.add_column(
            heading, justify="left" if heading == "workload" else "right", no_wrap=heading in (*_KEEP, *others)
        )
    for result in results:
        plain, ours, limit = (result.paces[label] for label in _SPECIAL)
        followed = "" if limit.n_identical == result.n_answers else "?"
        table.add_row(
            result.workload, str(result.n_slots), str(result.n_tokens), f"{plain.tokens_per_second:.1f}",
            f"{ours.tokens_per_second:.1f}", str(ours.ratio), f"{limit.ratio.value:.2f}{followed}",
            f"{share_of_limit(result):.0%}", f"{result.accepted_length:.1f}", f"{result.saved_ms:+.0f}",
            f"{ours.n_identical}/{result.n_answers}", *(str(result.paces[other].ratio) for other in others),
        )  # fmt: skip
    return [table]


def _finish(report: suite.Report, title: str, as_json: bool, out: Path | None, chart: Path | None) -> None:
    record: dict[str, Any] = report.as_dict()
    if out is not None:
        out.write_text(json.dumps(record, indent=2) + "\n")
    if chart is not None:
        chart.write_text(svg(report.results, title))
    if as_json:
        print(json.dumps(record))
        return
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    for n_slots, line in report.settings.items():
        console.print(f"{n_slots} at once: {line}", highlight=False)
    for table in tables(report.results, title):
        console.print(table)
    for label in report.too_long:
        console.print(f"left out, longer than the context (-c): {label}")
    if report.load > machine.MAX_LOAD:
        console.print(f"[bold red]measured while other programs used {report.load:.1f} cores[/]")


def numbers(text: str, option: str) -> tuple[int, ...]:
    """A comma-separated list of positive numbers."""
    try:
        found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise ConfigError(f"{option} is a list of numbers such as 1,4, not {text!r}")
    return found


def labelled(against: list[str] | None, labels: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Addresses of other servers with their labels."""
    urls, names = against or [], labels or []
    if len(names) > len(urls):
        raise ConfigError("every --label needs an --against")
    pairs = tuple((url, names[i] if i < len(names) else "") for i, url in enumerate(urls))
    taken = [name for _, name in pairs if name]
    if len(set(taken)) < len(taken) or set(taken) & set(_SPECIAL):
        raise ConfigError(f"labels must differ from each other and from {', '.join(_SPECIAL)}")
    return pairs
