"""`foretoken drafters`: what can guess, and with which options."""

from __future__ import annotations

import dataclasses
import json

from rich.console import Console
from rich.table import Table

from foretoken.cli import options
from foretoken.speculation.registry import describe, installed


def drafters(as_json: options.Json = False) -> None:
    """List the drafters that are installed, plugins included."""
    found = [describe(entry) for _, entry in sorted(installed().items())]
    if as_json:
        print(json.dumps([dataclasses.asdict(info) for info in found], default=str))
        return
    table = Table("drafter", "what it does", "options", "package")
    for info in found:
        settings = ", ".join(f"{name}={value!r}" for name, value in info.options.items())
        table.add_row(info.name, info.summary, settings, info.package)
    Console().print(table)
