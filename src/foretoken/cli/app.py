"""The `foretoken` command: one small module per sub-command."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterable

import typer

from foretoken.errors import ForetokenError

_COMMANDS = ("serve", "run", "bench", "audit", "calibrate", "drafters", "models", "top")


def main() -> None:
    """Run the command line; errors a person can cause end in one line, not in a traceback."""
    logging.basicConfig(format="%(levelname).1s %(name)s: %(message)s", stream=sys.stderr)
    # Only what was named is imported: who runs a model needs no web framework, and would wait for it.
    named = [name for name in sys.argv[1:2] if name in _COMMANDS]
    try:
        command_line(named or _COMMANDS)()
    except ForetokenError as error:
        print(f"foretoken: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def command_line(names: Iterable[str]) -> typer.Typer:
    """These sub-commands under one name."""
    app = typer.Typer(
        name="foretoken",
        help="Speculative decoding that is safe, free and always on, for every GGUF model.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # With it, a single command is still a sub-command.
    app.callback()(lambda: None)
    for name in names:
        command = getattr(importlib.import_module(f"foretoken.cli.{name}"), name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app
