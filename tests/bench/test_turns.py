"""The recorded agent session: what it is, and that a turn costs its new tokens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from foretoken.bench import agent_session, crowd, restart, saving, turns
from foretoken.bench.serving import Ours
from foretoken.bench.turn_chart import svg
from foretoken.bench.turns import TurnCost
from foretoken.config import CacheConfig, EngineConfig, ModelConfig

GAP = 64


def test_the_session_is_what_it_says() -> None:
    session = agent_session.load()
    assert len(session.turns) == 20
    assert len(session.tools) == 12
    roles = {message["role"] for turn in session.turns for message in turn.messages}
    assert roles == {"system", "user", "assistant", "tool"}
    pairs = list(zip(session.turns, session.turns[1:], strict=False))
    assert [b.title for a, b in pairs if a.messages == b.messages] == ["regenerated"]
    shorter = [(a, b) for a, b in pairs if b.messages[: len(a.messages)] != a.messages]
    assert [b.title for _, b in shorter] == ["earlier message edited"]
    assert not any("<think>" in str(turn.messages) for turn in session.turns)


@pytest.fixture(scope="module")
def config(tiny_path: Callable[..., Path]) -> EngineConfig:
    return EngineConfig(ModelConfig(tiny_path("qwen35")), n_parallel=2, n_ctx=24576, n_threads=1)


def test_a_turn_costs_its_new_tokens(config: EngineConfig) -> None:
    session = agent_session.load()
    (costs,) = turns.measure([Ours(config)], session, 4, lambda _: None).values()
    assert [cost.title for cost in costs] == [turn.title for turn in session.turns]
    for cost in costs:
        assert cost.n_processed >= cost.n_new
        assert cost.n_again <= GAP, cost


def test_a_killed_server_goes_on_where_it_was(config: EngineConfig) -> None:
    (found,) = restart.measure(config, agent_session.load(), 4, lambda _: None, turns=(2,))
    assert found.title == "tests listed"
    assert found.n_restarted <= found.n_running + GAP
    assert min(found.running_ms, found.restarted_ms, found.read_ms) > 0


def test_a_crowd_with_a_quarter_of_the_memory(config: EngineConfig) -> None:
    found = crowd.measure(config, 4, 4, lambda _: None)
    for run in (found.roomy, found.tight):
        assert run.n_same == run.n_answers == 4 * crowd.N_TURNS
        assert run.most_bytes <= run.budget
    assert found.roomy.n_reused > 0.6 * found.roomy.n_prompt
    assert found.tight.budget == found.roomy.most_bytes // 4
    assert found.tight.n_again >= found.roomy.n_again
    assert found.roomy.n_found == found.roomy.n_returns == 4 * (crowd.N_TURNS - 1)
    assert found.tight.n_found > 0


def test_what_keeping_costs_is_measured(tiny_path: Callable[..., Path]) -> None:
    config = EngineConfig(
        ModelConfig(tiny_path("qwen35")), n_parallel=2, n_ctx=1024, n_threads=1, cache=CacheConfig(1 << 30)
    )
    found = saving.measure(config, 2, lambda _: None)
    assert min(found.plain, found.keeping, found.copy_share) > 0


def test_the_chart_has_a_bar_per_turn_and_server() -> None:
    costs = {
        name: [TurnCost("a <b>", 100, 20, n, 1.0), TurnCost("c", 100, 5, 7, 1.0)] for name, n in (("x", 30), ("y", 99))
    }
    chart = svg(costs, "t & u")
    assert chart.count("<title>") == 4
    assert "a &lt;b&gt;: 99 computed, 20 new" in chart
