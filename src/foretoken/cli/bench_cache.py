"""`foretoken bench cache`: does a turn cost only its new tokens? A recorded agent session, turn by turn."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from typer import Option

from foretoken import machine
from foretoken.bench import agent_session, crowd, restart, saving, turns
from foretoken.bench.crowd import Crowd
from foretoken.bench.progress import counting
from foretoken.bench.restart import Restart
from foretoken.bench.saving import Saving
from foretoken.bench.serving import Elsewhere, LlamaServer, Ours, Served
from foretoken.bench.turn_chart import svg
from foretoken.bench.turns import TurnCost
from foretoken.cli import options
from foretoken.cli.bench_run import Anyway, Chart, Labels, labelled, refuse_when_loaded
from foretoken.cli.bench_server import Against, Llama, LlamaArguments
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.results import finish
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.errors import ConfigError

Predict = Annotated[int, Option("-n", "--predict", min=1, help="Tokens of every answer.")]
Conversations = Annotated[
    int, Option("--conversations", min=0, help="Conversations that take turns with a quarter of the memory; 0 is none.")
]
Session = Annotated[bool, Option("--session/--no-session", help="The recorded agent session, turn by turn.")]
Restarts = Annotated[
    bool, Option("--restarts/--no-restarts", help="The session on a server that is killed now and then.")
]
Rounds = Annotated[int, Option("--rounds", min=0, help="Of measuring what keeping costs a running answer; 0 is none.")]


@takes_engine(n_parallel=2, n_ctx=16384)
def bench_cache(
    config: EngineConfig,
    n_predict: Predict = 16,
    by_turn: Session = True,
    restarts: Restarts = True,
    conversations: Conversations = 8,
    rounds: Rounds = 5,
    against: Against = None,
    label: Labels = None,
    llama_server: Llama = None,
    llama_args: LlamaArguments = "",
    anyway: Anyway = False,
    as_json: options.Json = False,
    out: options.OutPath = None,
    chart: Chart = None,
) -> None:
    """Tokens computed and time to the first token per turn; answers under a tight budget; what keeping costs."""
    show_library_log(verbose=False)
    console = Console(stderr=True)
    session = agent_session.load()
    servers = _servers(config, llama_server, llama_args, labelled(against, label))
    refuse_when_loaded(console, anyway)
    n_steps = len(servers) * len(session.turns) * by_turn + restart.n_steps() * restarts + 2 * rounds
    n_steps += crowd.n_steps(conversations) if conversations else 0
    with counting(console, n_steps) as say:
        costs = turns.measure(servers, session, n_predict, say) if by_turn else {}
        killed = restart.measure(config, session, n_predict, say) if restarts else []
        tight = crowd.measure(config, conversations, n_predict, say) if conversations else None
        cost = saving.measure(config, rounds, say) if rounds else None
    record: dict[str, Any] = {
        "machine": machine.describe(),
        "model": config.model.path.name,
        "turns": {name: [asdict(turn) for turn in found] for name, found in costs.items()},
        "restarts": [asdict(one) for one in killed],
        "crowd": asdict(tight) if tight else None,
        "saving": asdict(cost) if cost else None,
    }
    if chart is not None and costs:
        chart.write_text(svg(costs, f"{config.model.path.name}: prompt tokens computed per turn"))
    shown = [_turn_table(costs)] if costs else []
    shown += [_restart_table(killed)] if killed else []
    shown += ([_crowd_table(tight)] if tight else []) + ([_saving_table(cost)] if cost else [])
    finish(record, shown, as_json, out)


def _servers(config: EngineConfig, binary: Path | None, arguments: str, others: Any) -> list[Served]:
    if binary is not None and not binary.is_file():
        raise ConfigError(f"--llama-server {binary}: there is no such file")
    theirs = [LlamaServer(binary, config, ("--jinja", *shlex.split(arguments)))] if binary is not None else []
    return [Ours(config), *theirs, *(Elsewhere(url, label or url.split("://")[-1]) for url, label in others)]


def _turn_table(costs: dict[str, list[TurnCost]]) -> Table:
    table = Table(title="prompt tokens computed, and milliseconds to the first token", box=SIMPLE)
    table.add_column("turn")
    for heading in ("tokens", "new", *(f"{name} {what}" for name in costs for what in ("computed", "ms"))):
        table.add_column(heading, justify="right")
    for number, one in enumerate(next(iter(costs.values()))):
        cells = [part for name in costs for part in _cells(costs[name][number])]
        table.add_row(f"{number + 1} {one.title}", str(one.n_prompt), str(one.n_new), *cells)
    totals = [part for found in costs.values() for part in (str(sum(turn.n_processed for turn in found)),
              f"{sum(turn.first_ms for turn in found):.0f}")]  # fmt: skip
    table.add_row("all", "", str(sum(turn.n_new for turn in next(iter(costs.values())))), *totals, style="bold")
    return table


def _cells(turn: TurnCost) -> tuple[str, str]:
    return str(turn.n_processed), f"{turn.first_ms:.0f}"


def _restart_table(found: list[Restart]) -> Table:
    table = Table(title="a turn on a server that went on, and on one that was killed before it", box=SIMPLE)
    table.add_column("turn")
    headings = (
        "computed",
        "after a restart",
        "ms to the first token",
        "after a restart",
        "reading",
        "without it, ratio",
    )
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in found:
        table.add_row(
            one.title, str(one.n_running), str(one.n_restarted), f"{one.running_ms:.0f}", f"{one.restarted_ms:.0f}",
            f"{one.read_ms:.0f}", f"{one.ratio:.2f}",
        )  # fmt: skip
    return table


def _crowd_table(found: Crowd) -> Table:
    title = f"{found.n_conversations} conversations take turns in {found.n_slots} slots, {found.n_turns} turns each"
    table = Table(title=title, box=SIMPLE)
    sizes = ("budget MiB", "held MiB at most", "process MiB more at most")
    for heading in (*sizes, "same answers", "found again", "reused", "computed again"):
        table.add_column(heading, justify="right")
    for run in (found.roomy, found.tight):
        n_bytes = (run.budget, run.most_bytes, run.more_rss)
        reused = f"{run.n_reused / max(1, run.n_prompt):.0%}"
        counts = (f"{run.n_same}/{run.n_answers}", f"{run.n_found}/{run.n_returns}", reused, str(run.n_again))
        table.add_row(*(f"{n / 2**20:.1f}" for n in n_bytes), *counts)
    return table


def _saving_table(found: Saving) -> Table:
    table = Table(title="a running answer beside prompts that are read once", box=SIMPLE)
    for heading in ("tokens/s, nothing kept", "tokens/s, states kept", "ratio", "copying, of the engine's time"):
        table.add_column(heading, justify="right")
    table.add_row(f"{found.plain:.1f}", f"{found.keeping:.1f}", str(found.ratio), f"{found.copy_share:.2%}")
    return table
