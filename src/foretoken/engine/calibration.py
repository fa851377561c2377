"""Measuring t(width) once per model, machine and settings, and remembering it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from foretoken import machine
from foretoken.backend import Backend, Span
from foretoken.engine.assembly import Assembly
from foretoken.memory import Memory

log = logging.getLogger("foretoken.engine")

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_ROUNDS = 5
_BUDGET_S = 12.0
_HEAD_BYTES = 1 << 20


def calibrated(assembly: Assembly) -> dict[int, float]:
    """t(width) in milliseconds, from the cache or measured now."""
    path = _cache_folder() / f"{_key(assembly)}.json"
    try:
        return {int(width): float(ms) for width, ms in json.loads(path.read_text())["ms"].items()}
    except FileNotFoundError:
        pass
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("ignoring the calibration in %s: %s", path, error)
    table = measure(assembly.context, assembly.memory)
    _store(path, {"model": assembly.model.name, "ms": table})
    return table


def measure(backend: Backend, memory: Memory, widths: Sequence[int] = WIDTHS) -> dict[int, float]:
    """Time a decode of every width on an empty sequence; wide ones are left out when time runs short."""
    limit = min(backend.n_batch, backend.n_outputs, backend.n_ctx)
    widths = [width for width in widths if width <= limit]
    samples: dict[int, list[float]] = {width: [] for width in widths}
    _time(backend, memory, 1)
    deadline = time.perf_counter() + _BUDGET_S
    for _ in range(_ROUNDS):
        for width in widths:
            if time.perf_counter() < deadline or (width == 1 and not samples[1]):
                samples[width].append(_time(backend, memory, width))
    memory.release(0)
    # The lower half: noise only ever adds.
    return {
        width: statistics.median_low(sorted(times)[: 1 + len(times) // 2]) for width, times in samples.items() if times
    }


def _time(backend: Backend, memory: Memory, width: int) -> float:
    memory.release(0)
    tokens = [(i * 7919 + 13) % backend.n_vocab for i in range(width)]
    started = time.perf_counter()
    backend.decode([Span(0, 0, tokens, width, 0)])
    backend.logits(width - 1)
    return (time.perf_counter() - started) * 1e3


def _key(assembly: Assembly) -> str:
    """A name for this model, machine, library and these settings."""
    path = assembly.model.path
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_HEAD_BYTES))
    facts = machine.describe()
    del facts["date"]
    settings = (path.stat().st_size, sorted(facts.items()), assembly.context.config)
    digest.update(repr(settings).encode())
    return digest.hexdigest()[:32]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "foretoken" / "calibration"


def _store(path: Path, record: dict[str, object]) -> None:
    """Remember a calibration; a folder that cannot be written to only means measuring again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(record))
        part.replace(path)
    except OSError as error:
        log.warning("cannot remember the calibration: %s", error)
