"""How measurements are shown and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

WIDTH = 140
"""Of tables that go to a file or a pipe."""


def finish(record: dict[str, Any], tables: list[Table], as_json: bool, out: Path | None) -> None:
    """Show a result to a person or a script, and keep it if asked."""
    if out is not None:
        out.write_text(json.dumps(record, indent=2) + "\n")
    if as_json:
        print(json.dumps(record))
    else:
        console = Console()
        if not console.is_terminal:
            console.width = WIDTH
        for table in tables:
            console.print(table)
