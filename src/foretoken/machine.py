"""What machine a measurement was made on, and whether it was fit for one."""

from __future__ import annotations

import os
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

from foretoken.config import available_cores
from foretoken.llama import library


def describe() -> dict[str, object]:
    """The facts a result is worthless without."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": _cpu(),
        "cores": available_cores(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "library": library.version(),
    }


MAX_LOAD = 0.3
"""Cores that others may use while measuring; beyond that threads wait for each other at every barrier."""


def load() -> float:
    """How many cores others keep busy, watched for a moment."""
    if not Path("/proc/stat").exists():
        return max(0.0, os.getloadavg()[0])
    before = _busy()
    time.sleep(0.3)
    after = _busy()
    return (after[0] - before[0]) / max(1, after[1] - before[1]) * (os.cpu_count() or 1)


def _busy() -> tuple[int, int]:
    fields = [int(value) for value in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    idle = fields[3] + fields[4]
    return sum(fields) - idle, sum(fields)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
