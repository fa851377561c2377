"""The models that ship with the package, by name; the card beside this file says what they can do."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from foretoken.errors import ConfigError


@dataclass(frozen=True, slots=True)
class EmbeddedModel:
    """One GGUF of the package and the digest it must have."""

    name: str
    file: str
    sha256: str
    draft: str | None = None
    """The smaller one that drafts for it unless told otherwise."""


class UnknownModel(ConfigError, KeyError):
    """No model of that name ships with the package."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        """Say which names there are."""
        return f"no embedded model is called {self.name!r}; there are: {', '.join(MODELS)}"


_SHIPPED = (
    EmbeddedModel(
        "mini", "foretoken-mini-q8_0.gguf", "c71e13f8461ab2f8d7cfe111f10a419f176f6b1e8554f57f41ef2a9094400117", "pico"
    ),
    EmbeddedModel(
        "nano", "foretoken-nano-q8_0.gguf", "e884f395ea793356c9ce79dcaf2e92e1ffdfc38f108abfd6b05d63bc66fb0e9c"
    ),
    EmbeddedModel(
        "pico", "foretoken-pico-q4_0.gguf", "7ece9c210047968dc946187dd1a4180e99128575d63df3b01cd492fa83d83cbb"
    ),
)
MODELS = {model.name: model for model in _SHIPPED}
DEFAULT = "mini"


def path_of(name: str) -> Path:
    """The file of an embedded model."""
    if name not in MODELS:
        raise UnknownModel(name)
    return Path(str(resources.files(__name__))) / MODELS[name].file


def draft_for(path: Path) -> Path | None:
    """The embedded model that drafts for the one in this file, if it is one and has such a companion."""
    for model in MODELS.values():
        if model.draft is not None and path == path_of(model.name):
            return path_of(model.draft)
    return None


def is_intact(name: str) -> bool:
    """Tell whether the file of an embedded model is there and has the digest it was shipped with."""
    path = path_of(name)
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == MODELS[name].sha256
