"""A look at a model file before libllama reads it, for errors that say what to do."""

from __future__ import annotations

from pathlib import Path

from foretoken.errors import ModelLoadError

_MAGIC = b"GGUF"


def check(path: Path) -> None:
    """Refuse what is plainly not a GGUF, with the reason in words."""
    if not path.exists():
        raise ModelLoadError(path, "there is no such file")
    if path.is_dir():
        raise ModelLoadError(path, "this is a folder; name the .gguf file in it")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelLoadError(path, error.strerror or str(error)) from None
    if magic != _MAGIC:
        raise ModelLoadError(path, "this is not a GGUF file (its first four bytes are not 'GGUF')")
