"""From command-line options to the engine's settings."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from foretoken.cli.models import resolve
from foretoken.config import CacheConfig, EngineConfig, ModelConfig, SpeculationConfig, available_cores
from foretoken.errors import ConfigError
from foretoken.models import draft_for

_NO_LIMIT = 1 << 62
_LLAMA_CPP_NAMES = {"draft": "draft-model", "draft-simple": "draft-model", "draft-mtp": "mtp"}


def show_library_log(verbose: bool) -> None:
    """libllama warns about much that is none of a user's business; show it on request."""
    logging.getLogger("foretoken").setLevel(logging.DEBUG if verbose else logging.WARNING)
    logging.getLogger("foretoken.libllama").setLevel(logging.DEBUG if verbose else logging.ERROR)


def model_path(argument: str | None, option: str | None, repository: str | None = None) -> Path:
    """The model named on the command line, once; without a name, the one that comes with the package."""
    if argument and option:
        raise ConfigError(f"the model is named twice: {argument} and -m {option}")
    return resolve(argument or option, repository)


def drafter_names(spec_type: str) -> tuple[str, ...]:
    """The drafters of a comma-separated list, by our names or llama.cpp's; `none` is none."""
    listed = [name.strip() for name in spec_type.split(",") if name.strip()]
    names = tuple(_LLAMA_CPP_NAMES.get(name, name) for name in listed)
    if "none" in names:
        if len(names) > 1:
            raise ConfigError("--spec-type none cannot be combined with other drafters")
        return ()
    return names


def _plan(name: str) -> Literal["adaptive", "fixed"]:
    match name:
        case "adaptive" | "fixed":
            return name
    raise ConfigError(f"--plan is adaptive or fixed, not {name!r}")


def _checkpoints(wish: str, n: int | None) -> Literal["auto", "on", "off"]:
    """The seeds' two flags about checkpoints as one wish."""
    match wish:
        case "auto" | "on" | "off":
            if n == 0 and wish == "on":
                raise ConfigError("--spec-use-checkpoints on contradicts --ctx-checkpoints 0")
            return "off" if n == 0 else wish
    raise ConfigError(f"--spec-use-checkpoints is auto, on or off, not {wish!r}")


def _cache(ram: int | None, disk: int, path: Path | None, n_checkpoints: int | None) -> CacheConfig:
    """How much is kept of what slots had to give up, and where."""
    config = CacheConfig(n_disk_bytes=disk << 20, folder=path)
    if disk and ram == 0:
        raise ConfigError("--cache-disk needs memory to write from: --cache-ram must not be 0")
    if ram is not None:
        config = replace(config, n_host_bytes=_NO_LIMIT if ram < 0 else ram << 20)
    return config if n_checkpoints is None else replace(config, n_checkpoints=n_checkpoints)


def _draft_path(wish: str | None, drafters: tuple[str, ...], model: Path) -> Path | None:
    """The draft model that was named; without a name, the companion of an embedded model."""
    wanted = "auto" in drafters or "draft-model" in drafters
    if wish is None:
        found = draft_for(model) if wanted else None
    elif wish in ("", "none"):
        found = None
    elif drafters and not wanted:
        raise ConfigError("-md names a draft model, but --spec-type does not list draft-model")
    else:
        found = resolve(wish)
    if found is None and "draft-model" in drafters:
        raise ConfigError("--spec-type draft-model needs the model: add -md FILE")
    return found


def engine_config(
    model: Path,
    *,
    n_gpu_layers: int,
    threads: int | None,
    spec_type: str,
    plan: str = "adaptive",
    draft_max: int,
    draft_min: int,
    draft_p_min: float,
    draft_model: str | None,
    draft_gpu_layers: int,
    checkpoints: str = "auto",
    ctx_checkpoints: int | None = None,
    cache_ram: int | None = None,
    cache_disk: int = 0,
    cache_path: Path | None = None,
    n_tries: int | None = None,
    drafter_options: dict[str, dict[str, Any]] | None = None,
    **settings: Any,
) -> EngineConfig:
    """Everything the engine needs to know, checked for contradictions."""
    names = drafter_names(spec_type)
    checkpoints = _checkpoints(checkpoints, ctx_checkpoints)
    if draft_min > draft_max:
        raise ConfigError(f"--draft-min {draft_min} is more than --draft-max {draft_max}")
    path = _draft_path(draft_model, names, model)
    draft = ModelConfig(path, n_gpu_layers=draft_gpu_layers) if path else None
    speculation = SpeculationConfig(
        names,
        plan=_plan(plan),
        n_tries=n_tries,
        n_max=draft_max,
        n_min=draft_min,
        p_min=draft_p_min,
        options=drafter_options or {},
        draft_model=draft,
    )
    return EngineConfig(
        ModelConfig(model, n_gpu_layers=n_gpu_layers),
        n_threads=threads or available_cores(),
        speculation=speculation,
        checkpoints=checkpoints,
        cache=_cache(cache_ram, cache_disk, cache_path, ctx_checkpoints),
        **settings,
    )
