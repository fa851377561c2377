"""`foretoken bench`: measurements, each a table and with --json a record."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer import Option

from foretoken import machine
from foretoken.bench import drafters as bench_drafters
from foretoken.bench import engine as bench_engine
from foretoken.bench import shapes
from foretoken.cli import options
from foretoken.cli.bench_cache import bench_cache
from foretoken.cli.bench_run import bench_run
from foretoken.cli.bench_server import bench_server
from foretoken.cli.results import finish
from foretoken.cli.settings import model_path, show_library_log

bench = typer.Typer(help="Is it faster? Measurements, recorded and never asserted.", no_args_is_help=True)
bench.command("run")(bench_run)
bench.command("server")(bench_server)
bench.command("cache")(bench_cache)


@bench.command("engine")
def engine(
    model: options.ModelArgument = None,
    model_option: options.ModelOption = None,
    shape: Annotated[
        str | None, Option("--shape", help=f"Random weights in a known shape instead: {', '.join(shapes.SHAPES)}.")
    ] = None,
    threads: options.Threads = None,
    n_tokens: Annotated[int, Option("-n", help="Tokens per measurement.")] = 128,
    as_json: options.Json = False,
    out: options.OutPath = None,
) -> None:
    """The engine beside bare libllama: its loop, every way of taking tokens back, 1 to 8 slots."""
    show_library_log(verbose=False)
    console = Console(stderr=True)
    warn_when_loaded(console)
    with console.status("preparing") as status:
        path = shapes.write(_shape_file(shape), shape) if shape else model_path(model, model_option)
        found = bench_engine.measure(path, threads, n_tokens, lambda text: status.update(text))
    record = {"machine": machine.describe(), **dataclasses.asdict(found)}
    record["overhead"]["percent"] = found.overhead.percent
    finish(record, _engine_tables(found), as_json, out)


@bench.command("drafters")
def drafters(
    n_history: Annotated[int, Option("--history", help="Tokens of history.")] = 32768,
    as_json: options.Json = False,
    out: options.OutPath = None,
) -> None:
    """What the text drafters cost per step, and how far they get on edits of known texts."""
    console = Console(stderr=True)
    with console.status("measuring every text drafter"):
        rows = bench_drafters.measure(n_history)
    finish({"machine": machine.describe(), "drafters": rows}, _drafter_tables(rows), as_json, out)


def warn_when_loaded(console: Console) -> None:
    """Timings on a busy machine are worth nothing: threads spin at barriers and wait for their core."""
    if (load := machine.load()) > machine.MAX_LOAD:
        console.print(f"[bold red]other programs use {load:.1f} cores: these timings will be wrong[/]")


def _drafter_tables(rows: list[dict[str, Any]]) -> list[Table]:
    """What each drafter costs, and how many tokens of a draft are right on each kind of text."""
    costs = Table("drafter", "begin ms", "draft µs", "p99 µs", "memory MB", title="cost per step")
    streams = list(rows[0]["streams"])
    right = Table("drafter", *streams, title="tokens accepted per draft")
    for row in rows:
        numbers = (row[key] for key in ("begin_ms", "draft_us", "draft_us_p99", "memory_mb"))
        costs.add_row(row["drafter"], *(f"{number:.1f}" for number in numbers))
        right.add_row(row["drafter"], *(f"{row['streams'][stream]['accepted']:.1f}" for stream in streams))
    return [costs, right]


def _shape_file(shape: str) -> Path:
    folder = Path(typer.get_app_dir("foretoken")) / "shapes"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{shape}-q4_k.gguf"


def _engine_tables(found: bench_engine.EngineBench) -> list[Table]:
    overhead = Table("bare decode ms", "loop ms", "overhead", title=f"{found.model}, {found.n_threads} threads")
    o = found.overhead
    overhead.add_row(f"{o.bare_ms:.3f}", f"{o.loop_ms:.3f}", f"{o.percent:+.1f}%")
    memories = Table("memory", "works", "bit-exact", "protect ms", "rewind ms", "reason", title="taking tokens back")
    for t in found.memories:
        costs = (f"{t.protect_ms:.3f}", f"{t.rewind_ms:.3f}") if t.works else ("", "")
        memories.add_row(t.memory, *("yes" if x else "no" for x in (t.works, t.exact)), *costs, t.reason)
    slots = Table("slots", "tokens/s", "per slot", title="plain decoding, all slots together")
    for n, speed in found.tokens_per_second.items():
        slots.add_row(str(n), f"{speed:.1f}", f"{speed / n:.1f}")
    return [overhead, memories, slots]
