"""Whatever is sent, the answer is never a 5xx and never nothing; the server is right afterwards.

FORETOKEN_SLOW=1 runs 10,000 cases instead of some.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.strategies import SearchStrategy

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.server.app import PARTS, routed
from foretoken.server.service import Service
from foretoken.server.settings import ServerSettings
from foretoken.types import Request, SamplingParams
from foretoken.worker.supervisor import Supervisor
from tests.server.fuzz import cases, constraints
from tests.server.running import RunningServer, running, wait_until

SLOW = bool(os.environ.get("FORETOKEN_SLOW"))
QUIET = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.generate),
    "database": None,
}
SECONDS = 10.0
Case = tuple[str, bytes]


@pytest.fixture(scope="module")
def victim(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    # Bodies that happen to be right should not take long either.
    with running(
        model_path,
        ServerSettings(n_predict=16, max_choices=16, grace=2, slot_save_path=tmp_path_factory.mktemp("slots")),
        n_ctx=128,
        embeddings=True,
    ) as server:
        yield server


def cannot(answer: httpx.Response | schemathesis.Response) -> bool:
    """Whether this is something that this model cannot do, whatever is asked."""
    return answer.status_code == 501 and "rank" in answer.text


def right_afterwards(server: RunningServer, engine: Engine) -> None:
    body = {"prompt": "The river runs", "n_predict": 12, "temperature": 0}
    answer = httpx.post(f"{server.url}/completion", json=body, timeout=SECONDS).json()
    assert answer["content"] == engine.complete(Request("The river runs", SamplingParams(temperature=0), 12))
    wait_until(server.idle, "every slot to be free", 5)
    assert server.worker.n_restarts == 0


@pytest.mark.timeout(3600 if SLOW else 120)
@pytest.mark.parametrize("strategy", [cases, constraints], ids=["bodies", "constraints"])
def test_malformed(victim: RunningServer, engine: Engine, strategy: Callable[[], SearchStrategy[Case]]) -> None:
    with httpx.Client(base_url=victim.url, timeout=SECONDS) as http:

        @settings(max_examples=10_000 if SLOW else 200, **QUIET)  # type: ignore[arg-type]
        @given(strategy())
        def check(case: Case) -> None:
            path, body = case
            answer = http.post(path, content=body)
            assert answer.status_code < 500 or cannot(answer), f"{path} {body!r}: {answer.text}"
            assert answer.content
            if answer.status_code >= 400:
                assert answer.json()["error"]["message"]

        check()
    right_afterwards(victim, engine)


def _schema() -> schemathesis.BaseSchema:
    """The OpenAPI document of an app whose model was never loaded."""
    unused = Supervisor(EngineConfig(ModelConfig(Path("none.gguf"))))
    service = Service(unused, ServerSettings())
    return schemathesis.openapi.from_dict(routed([part.router(service) for part in PARTS]).openapi())


SCHEMA = _schema()


@pytest.mark.timeout(3600 if SLOW else 120)
@pytest.mark.parametrize("operation", [o.ok() for o in SCHEMA.get_all_operations()], ids=lambda o: o.label)
def test_openapi_document(victim: RunningServer, engine: Engine, operation: schemathesis.core.result.Ok) -> None:  # type: ignore[type-arg]
    @settings(max_examples=300 if SLOW else 6, **QUIET)  # type: ignore[arg-type]
    @given(operation.as_strategy())
    def check(case: schemathesis.Case) -> None:
        answer = case.call(base_url=victim.url, timeout=SECONDS)
        assert answer.status_code < 500 or cannot(answer), answer.text

    check()
    right_afterwards(victim, engine)
