"""`foretoken bench server` on a tiny model: it runs, it adds up, and it shows what it found."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from foretoken import machine
from foretoken.bench.serving import Elsewhere, LlamaServer, Ours
from foretoken.bench.statistics import difference
from foretoken.bench.wire import Address, Connection, body
from foretoken.cli.bench_server import bench_server
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.errors import ForetokenError

TinyPath = Callable[..., Path]


@pytest.fixture(autouse=True)
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "load", lambda: 0.0)


def test_a_difference_is_found_whatever_the_pairs_have_in_common() -> None:
    found = difference([(10.0 * n, 10.0 * n + 1 + 0.1 * (n % 3)) for n in range(30)])
    assert found.value == pytest.approx(1.1)
    assert 1.0 <= found.low <= found.value <= found.high <= 1.2


def test_the_command(tiny_path: TinyPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Connection.ask
    # Far more than three rounds on a busy machine may be wrong by: what is shown as slower is what came over HTTP.
    monkeypatch.setattr(
        Connection, "ask", lambda self, asked: replace(heard := ask(self, asked), first=heard.first + 1)
    )
    app = typer.Typer()
    app.command()(bench_server)
    out = tmp_path / "server.json"
    config = EngineConfig(ModelConfig(tiny_path("llama")), n_ctx=256, n_threads=1,
                          speculation=SpeculationConfig(drafters=()))  # fmt: skip
    with Ours(config).started() as other:
        result = CliRunner().invoke(
            app,
            [str(config.model.path), "-t", "1", "-c", "256", "-np", "2", "--spec-type", "none", "--clients", "1,3",
             "--rounds", "2", "--latencies", "3", "-n", "8", "--short", "2", "--out", str(out),
             "--against", f"http://{other.host}:{other.port}", "--label", "other"],
        )  # fmt: skip
    assert result.exit_code == 0, result.output + str(result.exception)
    assert "first token" in result.stdout
    assert "requests/s" in result.stdout
    found = json.loads(out.read_text())
    assert found["overhead"]["n_rounds"] == 3
    assert found["overhead"]["first"]["other"] > found["overhead"]["first"]["base"] > 0
    assert [row["n_clients"] for row in found["load"]] == [1, 3]
    for row in found["load"]:
        assert list(row["paces"]) == ["foretoken", "other"]
        assert row["paces"]["foretoken"]["tokens_ratio"]["value"] == 1.0
        assert all(pace["tokens_per_second"] > 0 < pace["requests_per_second"] for pace in row["paces"].values())


def test_what_is_no_answer_is_said() -> None:
    with pytest.raises(ForetokenError, match="give an address"), Elsewhere("ftp://x", "x").started():
        pass
    silent = EngineConfig(ModelConfig(Path("none.gguf")))
    llama = LlamaServer(Path(sys.executable), silent)
    with pytest.raises(ForetokenError, match="llama-server did not start"), llama.started():
        pass


def test_a_refusal_is_not_timed(tiny_path: TinyPath) -> None:
    config = EngineConfig(ModelConfig(tiny_path("llama")), n_ctx=64, n_threads=1,
                          speculation=SpeculationConfig(drafters=()))  # fmt: skip
    with Ours(config).started() as address:
        connection = Connection(Address.of(f"http://{address.host}:{address.port}"))
        with pytest.raises(ForetokenError, match="not a complete answer"):
            connection.ask(body("x " * 500, 4))
        connection.close()
