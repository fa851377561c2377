"""Every option of the server, added to the command that wants one: a field of the settings is an option here."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from foretoken.cli import options
from foretoken.errors import ConfigError
from foretoken.server.auth import read_keys
from foretoken.server.settings import ServerSettings
from foretoken.types import SamplingParams

SERVER = "Server"
LIMITS = "Limits"
CHAT = "Chat"
LOGS = "Logs"

_SETTINGS: dict[str, Any] = {
    "host": Annotated[str, Option(help="Where to listen; 0.0.0.0 is everywhere.", rich_help_panel=SERVER)],
    "port": Annotated[int, Option(min=0, max=65535, help="0 takes a free one.", rich_help_panel=SERVER)],
    "alias": Annotated[str | None, Option("-a", "--alias", help="The model's name in answers.",
                                          rich_help_panel=SERVER)],
    "cors_origins": Annotated[list[str] | None, Option(help="Web pages that may ask.", rich_help_panel=SERVER)],
    "grace": Annotated[float, Option(min=0, help="Seconds for running answers when told to stop.",
                                     rich_help_panel=SERVER)],
    "patience": Annotated[float, Option(min=1, help="Seconds too long until an engine is taken for hung.",
                                        rich_help_panel=SERVER)],
    "page": Annotated[bool, Option("--webui/--no-webui", "--ui/--no-ui", help="The page at /.",
                                   rich_help_panel=SERVER)],
    "keep_requests": Annotated[int, Option(min=0, help="Requests of one key kept in memory for their pages.",
                                           rich_help_panel=SERVER)],
    "responses_db": Annotated[str, Option(help="The file that keeps responses; auto or none.",
                                          rich_help_panel=SERVER)],
    "cache_prompt": Annotated[bool, Option(help="Start from what was read before, where a prompt begins alike.",
                                           rich_help_panel=options.CACHE)],
    "slot_save_path": Annotated[Path | None, Option(help="The folder for POST /slots/N?action=save and restore.",
                                                    rich_help_panel=options.CACHE)],
    "max_body": Annotated[int, Option(min=1, help="Bytes of one request.", rich_help_panel=LIMITS)],
    "max_prompt": Annotated[int | None, Option(min=1, help="Tokens of one prompt.", rich_help_panel=LIMITS)],
    "max_streams": Annotated[int | None, Option(min=1, help="Requests of one key at once.", rich_help_panel=LIMITS)],
    "time_limit": Annotated[float | None, Option(min=0.001, help="Seconds per request.", rich_help_panel=LIMITS)],
    "responses_max_bytes": Annotated[int, Option(min=0, help="Bytes of all kept responses.", rich_help_panel=LIMITS)],
    "responses_max_days": Annotated[float, Option(min=0, help="Days a response is kept after its last use.",
                                                  rich_help_panel=LIMITS)],
    "n_predict": Annotated[int | None, Option("-n", "--predict", "--n-predict", rich_help_panel=LIMITS,
                                              help="Tokens per answer; -1 is no limit.")],
    "reasoning": Annotated[str, Option("-rea", "--reasoning", help="on, off or auto: as the template does.",
                                       rich_help_panel=CHAT)],
    "chat_template": Annotated[str | None, Option(help="A jinja template instead of the model's.",
                                                  rich_help_panel=CHAT)],
    "chat_template_kwargs": Annotated[str | None, Option(help="JSON for the template.", rich_help_panel=CHAT)],
    "log_prompts": Annotated[bool, Option("--log-prompts", help="Log prompts too.", rich_help_panel=LOGS)],
}  # fmt: skip
"""Options by the fields of `ServerSettings`, whose defaults are theirs."""

_SAMPLING: dict[str, Any] = {
    "temperature": options.Temperature,
    "top_k": options.TopK,
    "top_p": options.TopP,
    "min_p": options.MinP,
    "repeat_penalty": options.RepeatPenalty,
    "seed": options.Seed,
}
"""Likewise of `SamplingParams`."""

_FURTHER: dict[str, Any] = {
    "api_key": Annotated[list[str] | None, Option(help="Only answer with this key; several, or comma-separated.",
                                                  rich_help_panel=SERVER)],
    "api_key_file": Annotated[Path | None, Option(help="Keys, one per line.", rich_help_panel=SERVER)],
    "chat_template_file": Annotated[Path | None, Option(help="The same from a file.", rich_help_panel=CHAT)],
}  # fmt: skip
"""Options that several of them, or another, make a setting."""


def takes_server(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the server's options; they reach it as one `settings`."""
    signature = inspect.signature(command, eval_str=True)
    own = [parameter for name, parameter in signature.parameters.items() if name != "settings"]
    added = {**_SETTINGS, **_FURTHER, **_SAMPLING}
    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_default(name), annotation=annotation)
        for name, annotation in added.items()
    ]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        command(settings=server_settings({name: given.pop(name) for name in added}), **given)

    keyword_only = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapper.__signature__ = inspect.Signature([*keyword_only, *parameters])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in [*keyword_only, *parameters]}
    return wrapper


def server_settings(given: Mapping[str, Any]) -> ServerSettings:
    """What the options say, read and checked."""
    values = {name: _READERS.get(name, _as_it_is)(given[name]) for name in _SETTINGS}
    values["sampling"] = SamplingParams(**{name: given[name] for name in _SAMPLING})
    values["api_keys"] = read_keys(given["api_key"] or [], given["api_key_file"])
    if given["chat_template_file"] is not None:
        values["chat_template"] = _read(given["chat_template_file"])
    return ServerSettings(**values)


def _default(name: str) -> Any:
    """The value that the settings themselves have; collections are left out on a command line instead."""
    value = next((getattr(one, name) for one in (ServerSettings(), SamplingParams()) if hasattr(one, name)), None)
    return value if isinstance(value, str | int | float) else None


def _as_it_is(value: Any) -> Any:
    return value


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the chat template in {file}: {error}") from None


def _object(text: str | None) -> dict[str, Any]:
    try:
        value = json.loads(text or "{}")
    except ValueError as error:
        raise ConfigError(f"--chat-template-kwargs is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError("--chat-template-kwargs must be a JSON object")
    return value


def _reasoning(wish: str) -> str:
    if wish not in ("on", "off", "auto"):
        raise ConfigError(f"--reasoning is on, off or auto, not {wish!r}")
    return wish


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise ConfigError(f"--slot-save-path {path} is not a folder; make it first")
    return path


_READERS: dict[str, Callable[[Any], Any]] = {
    "cors_origins": lambda given: tuple(given or ()),
    "n_predict": lambda n: None if n is None or n < 0 else n,
    "reasoning": _reasoning,
    "slot_save_path": _folder,
    "chat_template_kwargs": _object,
}
"""How settings are made of what was written, where that is not the same."""
