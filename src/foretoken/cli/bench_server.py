"""`foretoken bench server`: what HTTP costs above the engine, and how the server bears many clients."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from typer import Option

from foretoken import machine
from foretoken.bench import load, overhead
from foretoken.bench.load import LoadPlan, Row
from foretoken.bench.progress import counting
from foretoken.bench.serving import Elsewhere, LlamaServer, Ours, Served
from foretoken.cli import options
from foretoken.cli.bench_run import Anyway, Labels, labelled, numbers, refuse_when_loaded
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.results import finish
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.errors import ConfigError

Clients = Annotated[str, Option("--clients", help="Numbers of clients at once, comma-separated; 0 is no load.")]
Rounds = Annotated[int, Option("--rounds", min=2, help="How often each load is repeated.")]
Latencies = Annotated[int, Option("--latencies", min=0, help="Pairs of answers to compare; 0 is none.")]
Long = Annotated[int, Option("-n", "--predict", min=2, help="Tokens of a long answer.")]
Short = Annotated[int, Option("--short", min=1, help="Tokens of a short answer.")]
Against = Annotated[list[str] | None, Option("--against", metavar="URL", help="A running server to load as well.")]
Llama = Annotated[
    Path | None, Option("--llama-server", help="llama.cpp's server: started with the same model, slots and threads.")
]
LlamaArguments = Annotated[str, Option("--llama-args", help="More arguments for it.")]


@dataclass(frozen=True, slots=True)
class ServerBench:
    """Everything `foretoken bench server` found."""

    model: str
    n_threads: int
    n_slots: int
    plan: LoadPlan
    overhead: overhead.Overhead | None
    load: list[Row]

    def as_dict(self) -> dict[str, Any]:
        return {"machine": machine.describe(), **asdict(self)}


@takes_engine(n_parallel=4, n_ctx=512)
def bench_server(
    config: EngineConfig,
    clients: Clients = "1,4,16,64",
    rounds: Rounds = 3,
    latencies: Latencies = 50,
    n_long: Long = 64,
    n_short: Short = 4,
    against: Against = None,
    label: Labels = None,
    llama_server: Llama = None,
    llama_args: LlamaArguments = "",
    anyway: Anyway = False,
    as_json: options.Json = False,
    out: options.OutPath = None,
) -> None:
    """First token and every further one above the engine in-process; tokens and requests per second by clients."""
    show_library_log(verbose=False)
    console = Console(stderr=True)
    plan = LoadPlan(() if clients == "0" else numbers(clients, "--clients"), rounds, n_long, n_short)
    servers = _servers(config, llama_server, llama_args, labelled(against, label))
    refuse_when_loaded(console, anyway)
    with counting(console, (latencies and latencies + 4) + load.n_steps(plan, len(servers))) as say:
        cost = overhead.measure(config, latencies, n_long, say) if latencies else None
        rows = load.measure(servers, plan, say) if plan.clients else []
    found = ServerBench(config.model.path.name, config.n_threads, config.n_parallel, plan, cost, rows)
    finish(found.as_dict(), tables(found), as_json, out)


def _servers(
    config: EngineConfig, binary: Path | None, arguments: str, others: Sequence[tuple[str, str]]
) -> list[Served]:
    if binary is not None and not binary.is_file():
        raise ConfigError(f"--llama-server {binary}: there is no such file")
    theirs = [LlamaServer(binary, config, tuple(shlex.split(arguments)))] if binary is not None else []
    return [Ours(config), *theirs, *(Elsewhere(url, label or url.split("://")[-1]) for url, label in others)]


def tables(found: ServerBench) -> list[Table]:
    """Latencies first, then one line per number of clients and server."""
    shown = []
    if found.overhead is not None:
        cost = found.overhead
        table = Table(title=f"{found.model}, {found.n_threads} threads: milliseconds, medians of {cost.n_rounds} pairs",
                      box=SIMPLE)  # fmt: skip
        for heading in ("", "engine", "over HTTP", "difference", "95% interval"):
            table.add_column(heading, justify="right" if heading else "left")
        for name, one in (("first token", cost.first), ("every further token", cost.per_token)):
            table.add_row(name, f"{one.base:.3f}", f"{one.other:.3f}", f"{one.value:+.3f}",
                          f"{one.low:+.3f} to {one.high:+.3f}")  # fmt: skip
        shown.append(table)
    if found.load:
        table = Table(title=f"{found.n_slots} slots, {found.n_threads} threads; ratios to the first server", box=SIMPLE)
        for heading in ("clients", "server", "tokens/s", "ratio", "requests/s", "ratio"):
            table.add_column(heading, justify="left" if heading == "server" else "right", no_wrap=True)
        for row in found.load:
            for number, (label, pace) in enumerate(row.paces.items()):
                ratios = [str(ratio) if number else "" for ratio in (pace.tokens_ratio, pace.requests_ratio)]
                table.add_row(str(row.n_clients), label, f"{pace.tokens_per_second:.1f}", ratios[0],
                              f"{pace.requests_per_second:.1f}", ratios[1])  # fmt: skip
        shown.append(table)
    return shown
