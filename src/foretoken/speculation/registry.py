"""Finding drafters: the built-in ones and everybody else's come through the same door."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from foretoken.config import SpeculationConfig
from foretoken.errors import ConfigError
from foretoken.speculation.base import Drafter
from foretoken.speculation.host import Host

GROUP = "foretoken.drafters"

AUTO = ("grammar", "copy", "suffix")
"""What "auto" means for any model; a draft model joins when one is named."""


@dataclass(frozen=True, slots=True)
class DrafterInfo:
    """A drafter as it can be listed: its name, what it does, its options with their defaults, where it comes from."""

    name: str
    summary: str
    options: Mapping[str, Any]
    package: str


def installed() -> dict[str, EntryPoint]:
    """Every registered drafter by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def describe(entry: EntryPoint) -> DrafterInfo:
    """Load a drafter and read its options off its constructor."""
    factory = entry.load()
    options = {
        name: parameter.default for name, parameter in inspect.signature(factory).parameters.items() if name != "host"
    }
    summary = (inspect.getdoc(factory) or "").split("\n")[0]
    return DrafterInfo(entry.name, summary, options, entry.dist.name if entry.dist else "?")


def build(config: SpeculationConfig, host: Host) -> list[Drafter]:
    """The drafters that the settings name, in order, ready for use."""
    return [_make(name, config.options.get(name, {}), host) for name in resolve(config)]


def resolve(config: SpeculationConfig) -> tuple[str, ...]:
    """The settings' names with "auto" spelled out, each once."""
    names: list[str] = []
    for name in config.drafters:
        names += AUTO if name == "auto" else (name,)
    if config.draft_model is not None and config.drafters:
        names.append("draft-model")
    unused = set(config.options) - set(names)
    if unused:
        raise ConfigError(f"options for drafters that are not in use: {', '.join(sorted(unused))}")
    return tuple(dict.fromkeys(names))


def _make(name: str, options: Mapping[str, Any], host: Host) -> Drafter:
    known = installed()
    if name not in known:
        raise ConfigError(f"there is no drafter {name!r}; {_suggestion(name, list(known))}")
    factory: Callable[..., Drafter] = known[name].load()
    accepted = inspect.signature(factory).parameters
    for option in options:
        if option not in accepted:
            others = [parameter for parameter in accepted if parameter != "host"]
            raise ConfigError(f"drafter {name} has no option {option!r}; {_suggestion(option, others)}")
    lent = {"host": host} if "host" in accepted else {}
    try:
        return factory(**options, **lent)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"drafter {name}: {error}") from error


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known)) or 'none'}"
