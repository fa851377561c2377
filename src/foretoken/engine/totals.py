"""What the loop has done since it was started, for whoever watches."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Totals:
    """Counters over all answers; they only ever grow."""

    step_ms: float = 0.0
    slots: int = 0
    """Slots that took part in the steps, all added up."""
    read: int = 0
    """Prompt tokens decoded."""
    emitted: int = 0
    drafted: int = 0
    accepted: int = 0
    replayed: int = 0
    rewinds: int = 0
    rewind_ms: float = 0.0
