"""The workloads: fixed prompts, shipped as plain files, that every measurement and audit shares."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from foretoken.errors import ConfigError

Kind = Literal["chat", "continuation"]

_INCLUDE = re.compile(r"\{\{([\w.-]+)\}\}")
_FIELDS = {"title", "kind", "max_tokens", "temperature", "seed", "conversations"}


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is said to the model, turn by turn; its own answers come between."""

    name: str
    turns: tuple[str, ...]
    answer_start: str = ""
    """How every answer begins: small models need to be led to the point."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Conversations of one kind, and how their answers are sampled."""

    name: str
    title: str
    kind: Kind
    max_tokens: int
    conversations: tuple[Conversation, ...]
    temperature: float = 0.0
    seed: int = 0

    @property
    def n_requests(self) -> int:
        return sum(len(conversation.turns) for conversation in self.conversations)


def names() -> tuple[str, ...]:
    """Every workload there is."""
    found = (file.name.removesuffix(".toml") for file in files(__name__).iterdir() if file.name.endswith(".toml"))
    return tuple(sorted(found))


def load(name: str) -> Workload:
    """One workload by name."""
    if name not in names():
        raise ConfigError(f"there is no workload {name!r}; there are {', '.join(names())}")
    text = files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return parse(name, tomllib.loads(text))


def load_all(chosen: Sequence[str] | None = None) -> list[Workload]:
    """The named workloads, or all of them."""
    return [load(name) for name in chosen or names()]


def parse(name: str, data: dict[str, Any]) -> Workload:
    """A workload from its file's content; what the loader does not know is a mistake."""
    if unknown := set(data) - _FIELDS:
        raise ConfigError(f"workload {name} has unknown fields: {', '.join(sorted(unknown))}")
    if data["kind"] not in ("chat", "continuation"):
        raise ConfigError(f"workload {name} is chat or continuation, not {data['kind']!r}")
    conversations = tuple(_conversation(entry) for entry in data["conversations"])
    return Workload(**{**data, "name": name, "conversations": conversations})


def _conversation(entry: dict[str, Any]) -> Conversation:
    turns = tuple(_INCLUDE.sub(_included, turn.strip()) for turn in entry["turns"])
    return Conversation(**{**entry, "turns": turns})


def _included(match: re.Match[str]) -> str:
    """The content of a file beside the workloads; sources carry a second suffix so that no tool takes them for ours."""
    folder = files(__name__).joinpath("files")
    plain = folder.joinpath(match[1])
    return (plain if plain.is_file() else folder.joinpath(f"{match[1]}.txt")).read_text(encoding="utf-8")
