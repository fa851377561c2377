"""A model's vocabulary without its weights, for tokenising outside the worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from foretoken.config import ModelConfig
from foretoken.llama.model import Model
from foretoken.llama.vocabulary import Vocabulary


@contextmanager
def open_vocabulary(path: Path) -> Iterator[Vocabulary]:
    """The vocabulary of a GGUF; open it only after a worker has loaded the file without harm."""
    with Model(ModelConfig(path, n_gpu_layers=0, vocab_only=True)) as model:
        yield model.vocabulary
