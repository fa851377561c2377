"""`foretoken calibrate`: what a step costs by its width on this machine."""

from __future__ import annotations

import dataclasses

from rich.console import Console
from rich.table import Table

from foretoken import machine
from foretoken.cli import options
from foretoken.cli.bench import warn_when_loaded
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.results import finish
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.engine.assembly import Assembly, assemble, try_memories
from foretoken.engine.calibration import bit_classes, calibrated, measure_behind

_PLOT_WIDTH = 40


@takes_engine()
def calibrate(config: EngineConfig, as_json: options.Json = False, out: options.OutPath = None) -> None:
    """Measure t(width), every way of taking tokens back, and which widths give the same bits.

    Serving does the first by itself when a model is new; this measures again, shows it, and remembers it.
    """
    show_library_log(verbose=False)
    console = Console(stderr=True)
    warn_when_loaded(console)
    with console.status("loading") as status:
        assembly = assemble(config)
        try:
            status.update("timing decodes by width")
            table = calibrated(assembly, again=True)
            status.update("timing decodes behind a long context")
            n_past, behind = measure_behind(assembly.context, assembly.memory, table)
            status.update("comparing bits by width")
            classes = bit_classes(assembly.context, assembly.memory, list(table))
            status.update("taking tokens back")
            memories = try_memories(config, assembly.model)
            record = {
                "machine": machine.describe(),
                "model": assembly.model.name,
                "ms": table,
                "behind": {"tokens": n_past, "ms": behind},
                "bit_classes": classes,
                "memories": [dataclasses.asdict(trial) for trial in memories],
            }
            shown = [_widths(assembly, table, classes, n_past, behind)]
        finally:
            assembly.close()
    finish(record, shown, as_json, out)


def _widths(
    assembly: Assembly, table: dict[int, float], classes: list[list[int]], n_past: int, behind: dict[int, float]
) -> Table:
    """One row per width: its time, its price in plain steps, rows per plain step, and a bar."""
    long = f"ms behind {n_past:,} tokens"
    shown = Table("rows", "ms", long, "t(rows)/t(1)", "rows per t(1)", "bits", "", title=assembly.describe())
    best = max(width * table[1] / ms for width, ms in table.items())
    for width, ms in table.items():
        gain = width * table[1] / ms
        label = next(chr(ord("A") + i) for i, members in enumerate(classes) if width in members)
        bar = "█" * round(gain / best * _PLOT_WIDTH)
        after = f"{behind[width]:.2f}" if width in behind else ""
        shown.add_row(str(width), f"{ms:.2f}", after, f"{ms / table[1]:.2f}", f"{gain:.2f}", label, bar)
    return shown
