"""A coding agent on the embedded model, four sessions at once: speculation changes nothing that it says or does.

FORETOKEN_SLOW=1 runs 50 sessions instead of some.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

import openai
import pytest

SLOW = bool(os.environ.get("FORETOKEN_SLOW"))
N_SESSIONS = 50 if SLOW else 4
EXAMPLE = Path(__file__).parents[3] / "examples" / "agent.py"


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.timeout(7200 if SLOW else 600)
def test_transcripts_do_not_depend_on_speculation(client: openai.OpenAI, agent: ModuleType) -> None:
    patient = client.with_options(timeout=600)
    speculated = agent.sessions(patient, N_SESSIONS, "auto")
    plain = agent.sessions(patient, N_SESSIONS, "none")
    for number, (with_it, without) in enumerate(zip(speculated, plain, strict=True)):
        assert with_it == without, f"session {number} is another one with speculation"
    passed = sum(passed for passed, _ in plain)
    steps = [step for _, transcript in plain for step in transcript]
    print(f"{passed} of {N_SESSIONS} sessions end with passing tests, after {len(steps)} steps")
    assert passed, "no program was ever repaired"
    assert any(who == "result" and text.startswith("FAILED") for who, text in steps), "no test ever failed"
