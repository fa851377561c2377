"""`foretoken serve`: what a llama-server user starts instead."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from foretoken.cli import options
from foretoken.cli.engine_options import takes_engine
from foretoken.config import EngineConfig
from foretoken.errors import ConfigError
from foretoken.server import logs
from foretoken.server.auth import read_keys
from foretoken.server.run import serve as run_server
from foretoken.server.settings import Reasoning, ServerSettings
from foretoken.types import SamplingParams

SERVER = "Server"
LIMITS = "Limits"
CHAT = "Chat"
LOGS = "Logs"

_LLAMA_NAMES = {
    "model_option": "MODEL", "n_gpu_layers": "N_GPU_LAYERS", "n_ctx": "CTX_SIZE", "n_parallel": "N_PARALLEL",
    "threads": "THREADS", "n_batch": "BATCH", "n_ubatch": "UBATCH", "flash_attention": "FLASH_ATTN",
    "kv_type_k": "CACHE_TYPE_K", "kv_type_v": "CACHE_TYPE_V", "unified": "KV_UNIFIED", "host": "HOST", "port": "PORT",
    "alias": "ALIAS", "api_key_file": "API_KEY_FILE", "n_predict": "N_PREDICT", "cache_prompt": "CACHE_PROMPT",
    "chat_template": "CHAT_TEMPLATE", "chat_template_file": "CHAT_TEMPLATE_FILE", "reasoning": "REASONING",
    "chat_template_kwargs": "CHAT_TEMPLATE_KWARGS", "spec_type": "SPEC_TYPE", "draft_model": "SPEC_DRAFT_MODEL",
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


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigError(f"--chat-template-kwargs is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError("--chat-template-kwargs must be a JSON object")
    return value


def _template(text: str | None, file: Path | None) -> str | None:
    if file is None:
        return text
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the chat template in {file}: {error}") from None


@takes_engine(n_parallel=4)
def serve(
    config: EngineConfig,
    host: Annotated[str, Option(help="Where to listen; 0.0.0.0 is everywhere.", rich_help_panel=SERVER)] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="0 takes a free one.", rich_help_panel=SERVER)] = 8080,
    alias: Annotated[
        str | None, Option("-a", "--alias", help="The model's name in answers.", rich_help_panel=SERVER)
    ] = None,
    api_key: Annotated[
        list[str] | None,
        Option(help="Only answer with this key; several, or comma-separated.", rich_help_panel=SERVER),
    ] = None,
    api_key_file: Annotated[Path | None, Option(help="Keys, one per line.", rich_help_panel=SERVER)] = None,
    cors_origins: Annotated[list[str] | None, Option(help="Web pages that may ask.", rich_help_panel=SERVER)] = None,
    grace: Annotated[
        float, Option(min=0, help="Seconds for running answers when told to stop.", rich_help_panel=SERVER)
    ] = 30.0,
    page: Annotated[
        bool, Option("--webui/--no-webui", "--ui/--no-ui", help="The page at /.", rich_help_panel=SERVER)
    ] = True,
    keep_requests: Annotated[
        int, Option(min=0, help="Requests of one key kept in memory for their pages.", rich_help_panel=SERVER)
    ] = 64,
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
    responses_db: Annotated[
        str, Option(help="The file that keeps responses; auto or none.", rich_help_panel=SERVER)
    ] = "auto",
    cache_prompt: Annotated[
        bool, Option(help="Reuse what a slot still holds of a prompt.", rich_help_panel=options.SPEED)
    ] = True,
    max_queue: Annotated[
        int, Option(min=1, help="Requests that may wait; more get a 429.", rich_help_panel=LIMITS)
    ] = 1024,
    max_body: Annotated[int, Option(min=1, help="Bytes of one request.", rich_help_panel=LIMITS)] = 16 << 20,
    max_prompt: Annotated[int | None, Option(min=1, help="Tokens of one prompt.", rich_help_panel=LIMITS)] = None,
    max_streams: Annotated[
        int | None, Option(min=1, help="Requests of one key at once.", rich_help_panel=LIMITS)
    ] = None,
    responses_max_bytes: Annotated[
        int, Option(min=0, help="Bytes of all kept responses.", rich_help_panel=LIMITS)
    ] = 256 << 20,
    responses_max_days: Annotated[
        float, Option(min=0, help="Days a response is kept after its last use.", rich_help_panel=LIMITS)
    ] = 30.0,
    time_limit: Annotated[float | None, Option(min=0.001, help="Seconds per request.", rich_help_panel=LIMITS)] = None,
    n_predict: Annotated[
        int, Option("-n", "--predict", "--n-predict", help="Tokens per answer; -1 is no limit.", rich_help_panel=LIMITS)
    ] = -1,
    reasoning: Annotated[
        str, Option("-rea", "--reasoning", help="on, off or auto: as the template does.", rich_help_panel=CHAT)
    ] = "auto",
    chat_template: Annotated[
        str | None, Option(help="A jinja template instead of the model's.", rich_help_panel=CHAT)
    ] = None,
    chat_template_file: Annotated[Path | None, Option(help="The same from a file.", rich_help_panel=CHAT)] = None,
    chat_template_kwargs: Annotated[str | None, Option(help="JSON for the template.", rich_help_panel=CHAT)] = None,
    log_json: Annotated[bool, Option("--log-json", help="Log JSON lines.", rich_help_panel=LOGS)] = False,
    log_prompts: Annotated[bool, Option("--log-prompts", help="Log prompts too.", rich_help_panel=LOGS)] = False,
    verbose: options.Verbose = False,
    temperature: options.Temperature = 0.8,
    top_k: options.TopK = 40,
    top_p: options.TopP = 0.95,
    min_p: options.MinP = 0.05,
    repeat_penalty: options.RepeatPenalty = 1.0,
    seed: options.Seed = None,
    jinja: Annotated[bool, Option(hidden=True)] = True,
    metrics: Annotated[bool, Option("--metrics", hidden=True)] = True,
    slots: Annotated[bool, Option("--slots", hidden=True)] = True,
    batching: Annotated[bool, Option("-cb", "--cont-batching", hidden=True)] = True,
) -> None:
    """Answer OpenAI's and llama.cpp's clients over HTTP.

    Every option is also read from FORETOKEN_<NAME>, from llama-server's own LLAMA_ARG_ variables, and from --config.
    """
    logs.set_up(log_json, verbose)
    sampling = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, repeat_penalty=repeat_penalty, seed=seed
    )
    settings = ServerSettings(
        host=host,
        port=port,
        alias=alias,
        api_keys=read_keys(api_key or [], api_key_file),
        cors_origins=tuple(cors_origins or ()),
        sampling=sampling,
        n_predict=None if n_predict < 0 else n_predict,
        cache_prompt=cache_prompt,
        reasoning=_reasoning(reasoning),
        chat_template=_template(chat_template, chat_template_file),
        chat_template_kwargs=_object(chat_template_kwargs),
        max_body=max_body,
        max_prompt_tokens=max_prompt,
        max_streams=max_streams,
        time_limit=time_limit,
        grace=grace,
        page=page,
        keep_requests=keep_requests,
        log_prompts=log_prompts,
        responses_db=responses_db,
        responses_max_bytes=responses_max_bytes,
        responses_max_days=responses_max_days,
    )
    run_server(replace(config, max_queue=max_queue), settings)


def _reasoning(wish: str) -> Reasoning:
    match wish:
        case "on" | "off" | "auto":
            return wish
    raise ConfigError(f"--reasoning is on, off or auto, not {wish!r}")
