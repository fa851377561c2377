"""Tiny real models: random GGUF files of many architectures that libllama loads in milliseconds."""

from .architectures import CATALOGUE
from .writer import ensure, write

ARCHITECTURES: tuple[str, ...] = tuple(CATALOGUE)

__all__ = ["ARCHITECTURES", "ensure", "write"]
