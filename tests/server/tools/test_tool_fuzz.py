"""Tools, choices and histories of all kinds: an answer or a reason, never a 5xx, never nothing.

FORETOKEN_SLOW=1 runs 3,000 cases instead of some.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from foretoken.server.settings import ServerSettings
from tests.server.running import RunningServer, running, wait_until

SLOW = bool(os.environ.get("FORETOKEN_SLOW"))
SECONDS = 30.0

NAMES = st.sampled_from(["f", "get_weather", "a.b/c:d-e", "", "two words", "é", "x" * 200])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null", "frog"])
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": TYPES}, optional={"enum": st.lists(ANY, max_size=3), "pattern": st.text(max_size=5)})
    | st.just({"$ref": "#/$defs/x"})
    | st.just({"$ref": "#"})
    | ANY,
    lambda inner: (
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(st.text(max_size=6), inner, max_size=3)},
            optional={"required": st.lists(st.text(max_size=6), max_size=3), "additionalProperties": st.booleans()},
        )
        | st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)})
    ),
    max_leaves=5,
)
FUNCTIONS = st.fixed_dictionaries(
    {"name": NAMES | ANY}, optional={"parameters": SCHEMAS, "strict": st.booleans() | ANY, "description": ANY}
)
TOOLS = st.lists(st.fixed_dictionaries({"type": st.just("function"), "function": FUNCTIONS}) | ANY, max_size=3)
CHOICES = (
    st.sampled_from(["auto", "none", "required", "any", "maybe"])
    | st.fixed_dictionaries({"type": st.just("function"), "function": st.fixed_dictionaries({"name": NAMES})})
    | ANY
)
WORDS = st.text(max_size=9)
CALLED = st.fixed_dictionaries({"name": NAMES, "arguments": WORDS | ANY})
CALLS = st.lists(st.fixed_dictionaries({"id": WORDS, "function": CALLED}), max_size=3)
HISTORY = st.lists(
    st.fixed_dictionaries({"role": st.just("user"), "content": WORDS})
    | st.fixed_dictionaries({"role": st.just("assistant"), "tool_calls": CALLS | ANY}, optional={"content": ANY})
    | st.fixed_dictionaries({"role": st.just("tool"), "content": WORDS, "tool_call_id": WORDS}),
    min_size=1,
    max_size=4,
)
BODIES = st.fixed_dictionaries(
    {"messages": HISTORY, "max_tokens": st.just(12)},
    optional={"tools": TOOLS, "tool_choice": CHOICES, "parallel_tool_calls": st.booleans(), "stream": st.booleans()},
)


@pytest.fixture(scope="module")
def victim(model_path: Path) -> Iterator[RunningServer]:
    with running(model_path, ServerSettings(grace=2), n_ctx=512) as server:
        yield server


@pytest.mark.timeout(3600 if SLOW else 240)
def test_tools_of_all_kinds(victim: RunningServer) -> None:
    with httpx.Client(base_url=victim.url, timeout=SECONDS) as http:

        @settings(
            max_examples=3000 if SLOW else 60,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.explicit, Phase.generate),
            database=None,
        )
        @given(BODIES)
        def check(body: dict[str, Any]) -> None:
            answer = http.post("/v1/chat/completions", content=json.dumps(body))
            assert answer.status_code < 500, f"{body}: {answer.text}"
            if answer.status_code >= 400:
                assert answer.json()["error"]["message"]

        check()
    wait_until(victim.idle, "every slot to be free", 10)
    assert victim.worker.n_restarts == 0
