"""The embedded model behind a server: it knows tools."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest

from foretoken.models import path_of
from tests.server.running import RunningServer, running

PATIENCE = 120.0


@pytest.fixture(scope="session")
def mini() -> Iterator[RunningServer]:
    with running(path_of("mini"), n_parallel=4, n_ctx=2048) as server:
        yield server


@pytest.fixture
def client(mini: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{mini.url}/v1", api_key="none", timeout=PATIENCE, max_retries=0) as client:
        yield client
