"""A server that most tests share, and clients for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import openai
import pytest

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from tests.server.running import TIMEOUT, RunningServer, running

ARCHITECTURE = "qwen35"


@pytest.fixture(scope="session")
def model_path(tiny_path: Callable[..., Path]) -> Path:
    return tiny_path(ARCHITECTURE)


@pytest.fixture(scope="session")
def server(model_path: Path) -> Iterator[RunningServer]:
    with running(model_path) as started:
        yield started


@pytest.fixture
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=TIMEOUT) as client:
        yield client


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", timeout=TIMEOUT, max_retries=0) as started:
        yield started


@pytest.fixture(scope="session")
def engine(model_path: Path) -> Iterator[Engine]:
    """The same model and settings in this process: what the server must say too."""
    config = EngineConfig(ModelConfig(model_path), n_parallel=2, n_ctx=512, n_threads=1)
    with Engine.from_config(config) as started:
        yield started
