"""`foretoken serve`: what a llama-server user starts instead."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Option

from foretoken.cli import options
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.server_options import LIMITS, LOGS, SERVER, takes_server
from foretoken.config import MAX_QUEUE, EngineConfig, Pooling
from foretoken.errors import ConfigError
from foretoken.server import logs
from foretoken.server.run import serve as run_server
from foretoken.server.settings import ServerSettings

_LLAMA_NAMES = {
    "model_option": "MODEL", "n_gpu_layers": "N_GPU_LAYERS", "n_ctx": "CTX_SIZE", "n_parallel": "N_PARALLEL",
    "threads": "THREADS", "n_batch": "BATCH", "n_ubatch": "UBATCH", "flash_attention": "FLASH_ATTN",
    "kv_type_k": "CACHE_TYPE_K", "kv_type_v": "CACHE_TYPE_V", "unified": "KV_UNIFIED", "host": "HOST", "port": "PORT",
    "alias": "ALIAS", "api_key_file": "API_KEY_FILE", "n_predict": "N_PREDICT", "cache_prompt": "CACHE_PROMPT",
    "chat_template": "CHAT_TEMPLATE", "chat_template_file": "CHAT_TEMPLATE_FILE", "reasoning": "REASONING",
    "chat_template_kwargs": "CHAT_TEMPLATE_KWARGS", "embeddings": "EMBEDDINGS", "pooling": "POOLING",
    "reranking": "RERANKING", "spec_type": "SPEC_TYPE", "draft_model": "SPEC_DRAFT_MODEL",
    "cache_ram": "CACHE_RAM", "ctx_checkpoints": "CTX_CHECKPOINTS",
}  # fmt: skip
"""llama-server's environment variables, without their LLAMA_ARG_."""


def defaults_from(names: list[str], environment: Mapping[str, str], file: Path | None) -> dict[str, Any]:
    """Values for options that are not on the command line: FORETOKEN_* first, then the file, then LLAMA_ARG_*."""
    found: dict[str, Any] = {
        name: environment[f"LLAMA_ARG_{theirs}"]
        for name, theirs in _LLAMA_NAMES.items()
        if name in names and f"LLAMA_ARG_{theirs}" in environment
    }
    if "LLAMA_API_KEY" in environment:
        found["api_key"] = [environment["LLAMA_API_KEY"]]
    found |= _read(file, names) if file is not None else {}
    for name in names:
        if (ours := f"FORETOKEN_{name.upper()}") in environment:
            found[name] = [environment[ours]] if name == "api_key" else environment[ours]
    return found


def _read(file: Path, names: list[str]) -> dict[str, Any]:
    """A TOML file whose keys are the long options' names."""
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot read the settings in {file}: {error}") from None
    found = {_ALIASES.get(key, key).replace("-", "_"): value for key, value in values.items()}
    for key in found:
        if key not in names:
            raise ConfigError(f"{file}: there is no setting named {key}; there are {', '.join(sorted(names))}")
    return found


_ALIASES = {
    "model": "model_option", "ctx-size": "n_ctx", "parallel": "n_parallel", "batch-size": "n_batch",
    "ubatch-size": "n_ubatch", "flash-attn": "flash_attention", "cache-type-k": "kv_type_k",
    "cache-type-v": "kv_type_v", "kv-unified": "unified", "temp": "temperature", "n-gpu-layers": "n_gpu_layers",
    "model-draft": "draft_model", "predict": "n_predict",
}  # fmt: skip


def _settings_file(context: typer.Context, value: Path | None) -> Path | None:
    names = [param.name for param in context.command.params if param.name]
    context.default_map = defaults_from(names, os.environ, value)
    return value


@takes_engine(n_parallel=4)
@takes_server
def serve(
    config: EngineConfig,
    settings: ServerSettings,
    settings_file: Annotated[
        Path | None,
        Option(
            "--config",
            help="A TOML file with any of these options; FORETOKEN_* variables work too.",
            is_eager=True,
            callback=_settings_file,
            rich_help_panel=SERVER,
        ),
    ] = None,
    max_queue: Annotated[
        int, Option(min=1, help="Requests that may wait; more get a 429.", rich_help_panel=LIMITS)
    ] = MAX_QUEUE,
    embeddings: Annotated[
        bool, Option("--embeddings", "--embedding", help="Offer embeddings too.", rich_help_panel=SERVER)
    ] = False,
    pooling: Annotated[
        str,
        Option(help="auto, none, mean, cls, last or rank: how a text's vectors become one.", rich_help_panel=SERVER),
    ] = "auto",
    reranking: Annotated[
        bool, Option("--reranking", "--rerank", help="Rank documents: --pooling rank.", rich_help_panel=SERVER)
    ] = False,
    log_json: Annotated[bool, Option("--log-json", help="Log JSON lines.", rich_help_panel=LOGS)] = False,
    verbose: options.Verbose = False,
    jinja: Annotated[bool, Option(hidden=True)] = True,
    metrics: Annotated[bool, Option("--metrics", hidden=True)] = True,
    slots: Annotated[bool, Option("--slots", hidden=True)] = True,
    batching: Annotated[bool, Option("-cb", "--cont-batching", hidden=True)] = True,
) -> None:
    """Answer OpenAI's and llama.cpp's clients over HTTP.

    Every option is also read from FORETOKEN_<NAME>, from llama-server's own LLAMA_ARG_ variables, and from --config.
    """
    logs.set_up(log_json, verbose)
    way = _pooling(pooling, reranking)
    run_server(replace(config, max_queue=max_queue, embeddings=embeddings or way == "rank", pooling=way), settings)


def _pooling(wish: str, reranking: bool) -> Pooling | Literal["auto"]:
    if reranking and wish not in ("auto", "rank"):
        raise ConfigError(f"--reranking needs --pooling rank, not {wish}")
    wish = "rank" if reranking else wish
    match wish:
        case "auto" | "none" | "mean" | "cls" | "last" | "rank":
            return wish
    raise ConfigError(f"--pooling is auto, none, mean, cls, last or rank, not {wish!r}")
