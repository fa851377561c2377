"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from foretoken.config import ModelConfig
from foretoken.llama.model import Model
from tests import tiny

# How long an example takes says something about the machine, not about the code.
settings.register_profile("foretoken", deadline=None)
settings.load_profile("foretoken")
# Calibrations of tiny models and what tests ask them are none of the user's business.
os.environ["XDG_CACHE_HOME"] = os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="foretoken-tests-")

TinyModel = Callable[..., Model]


@pytest.fixture(scope="session")
def tiny_path(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Writes a tiny random model of an architecture once, and says where."""
    directory = tmp_path_factory.mktemp("tiny-models")

    def path(arch: str, quant: str = "Q8_0") -> Path:
        return tiny.ensure(directory, arch, quant)

    return path


@pytest.fixture(scope="session")
def tiny_model(tiny_path: Callable[..., Path]) -> Iterator[TinyModel]:
    """Opens tiny models once per session."""
    models: dict[tuple[str, str], Model] = {}

    def open_model(arch: str, quant: str = "Q8_0") -> Model:
        if (arch, quant) not in models:
            models[arch, quant] = Model(ModelConfig(tiny_path(arch, quant)))
        return models[arch, quant]

    yield open_model
    for model in models.values():
        model.close()
