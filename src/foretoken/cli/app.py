"""The `foretoken` command: one small module per sub-command."""

from __future__ import annotations

import importlib
import logging
import sys

import typer

from foretoken.errors import ForetokenError

app = typer.Typer(
    name="foretoken",
    help="Speculative decoding that is safe, free and always on, for every GGUF model.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_COMMANDS = ("serve", "run", "bench", "audit", "calibrate", "drafters", "models", "top")

for _name in _COMMANDS:
    _command = getattr(importlib.import_module(f"foretoken.cli.{_name}"), _name)
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name)(_command)


def main() -> None:
    """Run the command line; errors a person can cause end in one line, not in a traceback."""
    logging.basicConfig(format="%(levelname).1s %(name)s: %(message)s", stream=sys.stderr)
    try:
        app()
    except ForetokenError as error:
        print(f"foretoken: {error}", file=sys.stderr)
        raise SystemExit(1) from None
