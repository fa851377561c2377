"""Audits of tiny models: honest ones pass, and what lies is found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from foretoken.audit.servers import N_STEPS, audit_server
from foretoken.backend import Sampler
from foretoken.bench import workloads
from foretoken.bench.remote import Server
from foretoken.cli.audit import audit
from foretoken.engine import loop
from foretoken.speculation.base import Draft
from foretoken.types import Token

TinyPath = Callable[..., Path]
SHORT = ("-t", "1", "-c", "512", "-n", "40", "-w", "quicksort-trio")


def run_cli(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(audit)
    result = CliRunner().invoke(app, list(arguments))
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.mark.parametrize("arch", ["qwen35", "llama", "mamba2"])
def test_honest_models_pass(arch: str, tiny_path: TinyPath, tmp_path: Path) -> None:
    path, out = tiny_path(arch), tmp_path / "receipt.json"
    code, stdout = run_cli(str(path), *SHORT, "--stress", "--out", str(out))
    assert code == 0
    assert "DIVERGED" not in stdout
    assert "quicksort-trio: MATCH (3 answers" in stdout
    receipt = json.loads(out.read_text())
    assert receipt["verdict"] == "MATCH"
    assert receipt["model"]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert receipt["counts"]["requests"] == 3 * len(receipt["variations"])
    assert receipt["counts"]["drafted"] > receipt["counts"]["accepted"] > 0
    assert receipt["counts"]["rewinds"] > 20, "an audit in which nothing is taken back proves little"
    assert receipt["settings"]["engine"][0] != receipt["settings"]["engine"][1]


def test_a_quick_look(tiny_path: TinyPath) -> None:
    code, stdout = run_cli(str(tiny_path("qwen35")), *SHORT, "-w", "shuffled-prose", "--quick", "--json")
    assert code == 0
    found = json.loads(stdout)
    assert found["settings"]["quick"]
    assert {variation["requests"] for variation in found["variations"]} == {2}


def test_who_lets_nobody_draft_is_not_made_to(tiny_path: TinyPath) -> None:
    """F16 weights have other bits in company: exact means alone, and for the saboteur as well."""
    code, stdout = run_cli(str(tiny_path("qwen35", "F16")), *SHORT, "--exact", "--quick", "--json")
    found = json.loads(stdout)
    assert code == 0
    assert "no drafts" in found["settings"]["engine"][0]
    assert any("saboteur" in variation["name"] for variation in found["variations"])
    assert found["counts"]["drafted"] == 0


def trusting(sampler: Sampler, rows: Sequence[int], draft: Draft) -> Iterator[tuple[int, Token]]:
    """A verdict that believes the first token of every draft without looking."""
    for i, (row, guess) in enumerate(zip(rows, (*draft.tokens, None), strict=True)):
        token = sampler.sample(row)
        if i == 0 and guess is not None:
            token = guess
        yield row, token
        if token != guess:
            return


def test_a_loop_that_believes_its_drafts_is_found(tiny_path: TinyPath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "verify", trusting)
    code, stdout = run_cli(str(tiny_path("llama")), *SHORT, "-n", "48", "--stress", "--json")
    assert code == 1
    found = json.loads(stdout)
    assert found["verdict"] == "DIVERGED"
    by_name = {variation["name"]: variation["divergences"] for variation in found["variations"]}
    assert by_name["one at a time, plain again, greedy"] == []
    assert by_name["4 at once, plain, greedy"] == []
    divergences = [divergence for those in by_name.values() for divergence in those]
    assert all(divergence["width"] > 1 for divergence in divergences)
    assert any(divergence["margin"] > 0.1 for divergence in divergences), "a bug is no near tie"
    assert all(divergence["expected_token"] != divergence["got_token"] for divergence in divergences)


def test_other_servers_are_held_against_themselves() -> None:
    def answers(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404)
        body = json.loads(request.content)
        said = f"seed {body['seed']}: {json.dumps(body.get('messages') or body['prompt'])[:40]}"
        return httpx.Response(200, text=f"data: {json.dumps({'choices': [{'delta': {'content': said}}]})}\n\n")

    told: list[str] = []
    chosen = [workloads.load("quicksort-trio")]
    server = Server("http://other:1", templates=True, transport=httpx.MockTransport(answers))
    outcomes = list(audit_server(server, chosen, 16, told.append))
    assert len(outcomes) == 4
    assert len(told) == 3 * N_STEPS
    assert not any(outcome.divergences for outcome in outcomes)


def test_a_server_that_changes_its_mind_is_found() -> None:
    asked = iter(range(1000))

    def answers(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(404)
        said = "print(data)" if next(asked) < 7 else "print(sorted(data))"
        return httpx.Response(200, text=f"data: {json.dumps({'choices': [{'delta': {'content': said}}]})}\n\n")

    server = Server("http://other:1", templates=True, transport=httpx.MockTransport(answers))
    outcomes = list(audit_server(server, [workloads.load("quicksort-trio")], 16, lambda step: None))
    assert [len(outcome.divergences) for outcome in outcomes] == [0, 2, 0, 0]
    assert str(outcomes[1].divergences[0]) == "at letter 6: 'data)' became 'sorted(data))'"
