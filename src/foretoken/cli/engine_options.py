"""Every option of the engine, added to any command that wants one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from typer import Option

from foretoken.cli import options
from foretoken.cli.settings import engine_config, model_path
from foretoken.speculation.registry import describe, installed

_DRAFTERS = "Drafters"
_FAMILY = "ngram"
"""The seeds' flags: --spec-ngram-size-n and its like set every n-gram drafter in use."""

_ENGINE: dict[str, tuple[Any, Any]] = {
    "model": (options.ModelArgument, None),
    "model_option": (options.ModelOption, None),
    "repository": (options.Repository, None),
    "n_gpu_layers": (options.GpuLayers, -1),
    "n_ctx": (options.Context, None),
    "n_parallel": (options.Parallel, 1),
    "threads": (options.Threads, None),
    "n_batch": (options.BatchSize, 2048),
    "n_ubatch": (options.MicroBatch, 512),
    "flash_attention": (options.FlashAttention, "auto"),
    "kv_type_k": (options.KvTypeK, None),
    "kv_type_v": (options.KvTypeV, None),
    "unified": (options.Unified, None),
    "memory": (options.MemoryOption, "auto"),
    "exact": (options.Exact, None),
    "check_integrity": (options.CheckIntegrity, False),
    "spec_type": (options.SpecType, "auto"),
    "plan": (options.Plan, "adaptive"),
    "draft_max": (options.DraftMax, 64),
    "draft_min": (options.DraftMin, 0),
    "draft_p_min": (options.DraftPMin, 0.0),
    "draft_model": (options.DraftModel, None),
    "draft_gpu_layers": (options.DraftGpuLayers, -1),
    "checkpoints": (options.UseCheckpoints, "auto"),
    "ctx_checkpoints": (options.CtxCheckpoints, None),
    "cache_ram": (options.CacheRam, None),
    "cache_disk": (options.CacheDisk, 0),
    "cache_path": (options.CachePath, None),
    "n_tries": (options.NumTries, None),
}


def takes_engine(**defaults: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the engine's options, some with other defaults; they reach it as one `config`."""
    return functools.partial(_with_engine_options, defaults)


def _with_engine_options(defaults: dict[str, Any], command: Callable[..., None]) -> Callable[..., None]:
    engine = {name: (kind, defaults.get(name, default)) for name, (kind, default) in _ENGINE.items()}
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "config"]
    flags = dict(_drafter_flags())
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in {**engine, **{k: (v[0], None) for k, v in flags.items()}}.items()
    ]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        settings = {name: given.pop(name) for name in _ENGINE}
        chosen = {name: value for name in flags if (value := given.pop(name)) is not None}
        path = model_path(settings.pop("model"), settings.pop("model_option"), settings.pop("repository"))
        drafter_options = _by_drafter({flags[name][1]: value for name, value in chosen.items()}, settings)
        command(config=engine_config(path, drafter_options=drafter_options, **settings), **given)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapper.__signature__ = inspect.Signature([*added[:2], *keyword_only, *added[2:]])  # type: ignore[attr-defined]
    # typer reads both, and must find them agreeing.
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in [*keyword_only, *added]}
    return wrapper


_Target = tuple[str, str]


def _drafter_flags() -> Iterator[tuple[str, tuple[Any, _Target]]]:
    """One flag per option of every installed drafter, plugins included, and the seeds' family flags."""
    family: dict[str, type] = {}
    for name, entry in sorted(installed().items()):
        for option, default in describe(entry).options.items():
            kind = type(default) if isinstance(default, int | float | str) else str
            yield _flag(name, option, kind, f"(default: {default})" if default != "" else "")
            if name.startswith(f"{_FAMILY}-"):
                family.setdefault(option, kind)
    for option in ("size_n", "size_m", "min_hits"):
        yield _flag(_FAMILY, option, family[option], "For every n-gram drafter in use that has it.")


def _flag(drafter: str, option: str, kind: type, text: str) -> tuple[str, tuple[Any, _Target]]:
    spelling = f"--spec-{drafter}-{option}".replace("_", "-")
    name = spelling.strip("-").replace("-", "_")
    flag = Option(spelling, help=text, show_default=False, rich_help_panel=_DRAFTERS)
    annotation: Any = Annotated.__class_getitem__((kind | None, flag))  # type: ignore[attr-defined]
    return name, (annotation, (drafter, option))


def _by_drafter(values: dict[_Target, Any], settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Options sorted by drafter, with family flags spread over the drafters they concern."""
    found: dict[str, dict[str, Any]] = {}
    in_use = [name.strip() for name in settings["spec_type"].split(",")]
    known = installed()
    for (drafter, option), value in values.items():
        concerned = [drafter]
        if drafter == _FAMILY:
            concerned = [n for n in in_use if n in known and option in describe(known[n]).options] or [drafter]
        for name in concerned:
            found.setdefault(name, {}).setdefault(option, value)
    return found
