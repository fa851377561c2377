"""`foretoken audit`: is it the same text, whatever drafts and whatever shares the batch?"""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer import Option

from foretoken.audit.auditor import Outcome
from foretoken.audit.receipt import receipt, server_receipt
from foretoken.audit.run import QUICK_TOKENS, Audit
from foretoken.audit.servers import N_STEPS, audit_server
from foretoken.audit.variations import shortened
from foretoken.bench import workloads
from foretoken.bench.progress import counting
from foretoken.bench.remote import Server
from foretoken.cli import options
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig

Names = Annotated[
    list[str] | None,
    Option("-w", "--workload", help=f"Only this one; may be given several times: {', '.join(workloads.names())}."),
]
Tokens = Annotated[int, Option("-n", "--predict", min=1, help="Tokens of an answer at most.")]
Quick = Annotated[bool, Option("--quick", help="One conversation of each workload, short answers, auto alone.")]
Stress = Annotated[bool, Option("--stress", help="Verify every offer, whether it is expected to pay or not.")]
Against = Annotated[
    str | None, Option("--against", metavar="URL", help="Audit an OpenAI-compatible server instead, by its text.")
]
Receipt = Annotated[Path | None, Option("--out", help="Write a receipt (JSON) to a file.")]


@takes_engine(n_ctx=4096)
def audit(
    config: EngineConfig,
    workload: Names = None,
    max_tokens: Tokens = 128,
    quick: Quick = False,
    stress: Stress = False,
    against: Against = None,
    as_json: options.Json = False,
    out: Receipt = None,
) -> None:
    """Answer workloads in every way there is and compare token by token; exit status 1 on any divergence."""
    show_library_log(verbose=False)
    console = Console(stderr=as_json, highlight=False)
    chosen = tuple(workloads.load_all(workload))
    if against is not None:
        found = _audit_server(console, against, chosen, max_tokens, quick)
    else:
        subject = Audit(config, chosen, max_tokens, stress, quick)
        with counting(_beside(console), subject.n_steps) as say:
            _print(console, subject.run(say), len(subject.variations))
        found = receipt(subject)
    _finish(console, found, as_json, out)


def _audit_server(
    console: Console, url: str, chosen: tuple[workloads.Workload, ...], max_tokens: int, quick: bool
) -> dict[str, Any]:
    if quick:
        chosen = tuple(shortened(workload) for workload in chosen)
        max_tokens = min(max_tokens, QUICK_TOKENS)
    server = Server(url, templates=True)
    try:
        with counting(_beside(console), N_STEPS * sum(workload.n_requests for workload in chosen)) as say:
            outcomes = _print(console, audit_server(server, chosen, max_tokens, say), N_STEPS - 2)
    finally:
        server.close()
    return server_receipt(url, outcomes)


def _beside(console: Console) -> Console:
    """Where progress is shown: on the same terminal, but never in the same file."""
    return console if console.is_terminal else Console(stderr=True)


def _print(console: Console, outcomes: Iterable[Outcome], n: int) -> list[Outcome]:
    """Show every outcome as it comes: a line per workload, and one for each divergence."""
    seen = []
    for i, outcome in enumerate(outcomes, 1):
        seen.append(outcome)
        console.print(f">>> {i}/{n} {outcome.variation}", markup=False)
        for line in lines(outcome):
            style = "bold red" if "DIVERGED" in line else None
            console.print(f"  {line}", markup=False, style=style, soft_wrap=True)
    return seen


def lines(outcome: Outcome) -> list[str]:
    """MATCH or DIVERGED, workload by workload."""
    found = []
    for name, group in groupby(outcome.answers, key=lambda answer: answer[0].split("/")[0]):
        answers = list(group)
        different = [one for one in outcome.divergences if one.case.split("/")[0] == name]
        found += [f"{one.case}: DIVERGED {one}" for one in different]
        if not different:
            n_tokens = sum(n for _, n in answers)
            many = "answer" if len(answers) == 1 else "answers"
            found.append(f"{name}: MATCH ({len(answers)} {many}, {n_tokens} tokens)")
    return found


def _finish(console: Console, found: dict[str, Any], as_json: bool, out: Path | None) -> None:
    if out is not None:
        out.write_text(json.dumps(found, indent=2) + "\n")
    if as_json:
        print(json.dumps(found))
    counts = found["counts"]
    console.print(
        f"{found['verdict']}: {counts['diverged']} of {counts['requests']} answers diverged "
        f"({counts['tokens']} tokens compared, {counts['drafted']} drafted, {counts['accepted']} accepted, "
        f"{counts['rewinds']} rewinds)",
        style="bold red" if counts["diverged"] else "bold green",
        soft_wrap=True,
    )
    for label in found.get("settings", {}).get("left_out", ()):
        console.print(f"left out, longer than the context (-c): {label}", markup=False)
    if counts["diverged"]:
        raise typer.Exit(1)
