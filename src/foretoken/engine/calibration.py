"""Measuring t(width) once per model, machine and settings, and remembering it."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from foretoken import machine
from foretoken.backend import Backend, Span
from foretoken.engine.assembly import Assembly
from foretoken.llama import library
from foretoken.memory import Memory

log = logging.getLogger("foretoken.engine")

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64)
_ROUNDS = 5
_PLAIN_STEPS = 4
_BUDGET_S = 12.0
_HEAD_BYTES = 1 << 20
_CONTEXT = 16
"""Tokens before the row whose bits are compared."""
_LONG = 4096
_LONG_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_READING_S = 4.0
"""What reading a long context may take; behind as much of it as that allows widths are timed once more."""


def calibrated(assembly: Assembly, again: bool = False) -> dict[int, float]:
    """t(width) in milliseconds, from the cache or measured now."""
    path = _cache_folder() / f"{_key(assembly)}.json"
    if not again and (known := _remembered(path)):
        return known
    busy = machine.load() > machine.MAX_LOAD
    table = measure(assembly.context, assembly.memory)
    if busy:
        log.warning("other programs are using the machine: this calibration is used, but not remembered")
        return table
    _store(path, {"model": assembly.model.name, "ms": table})
    return table


def _remembered(path: Path) -> dict[int, float] | None:
    try:
        return {int(width): float(ms) for width, ms in json.loads(path.read_text())["ms"].items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        log.warning("ignoring the calibration in %s: %s", path, error)
        return None


def measure(backend: Backend, memory: Memory, widths: Sequence[int] = WIDTHS) -> dict[int, float]:
    """Time a decode of every width on an empty sequence; wide ones are left out when time runs short."""
    limit = min(backend.n_batch, backend.n_outputs, backend.n_ctx)
    widths = [width for width in widths if width <= limit]
    samples: dict[int, list[float]] = {width: [] for width in widths}
    time_plain(backend, memory)
    deadline = time.perf_counter() + _BUDGET_S
    for _ in range(_ROUNDS):
        for width in widths:
            if time.perf_counter() < deadline or (width == 1 and not samples[1]):
                samples[width].append(time_rows(backend, memory, width) if width > 1 else time_plain(backend, memory))
    memory.release(0)
    # Noise only ever adds: the fastest is the truest.
    return {width: min(times) for width, times in samples.items() if times}


def measure_behind(backend: Backend, memory: Memory, table: Mapping[int, float]) -> tuple[int, dict[int, float]]:
    """t(width) behind a long context, and how long it is; `table` says what widths cost behind none."""
    widest = max(table)
    affordable = int(_READING_S * 1e3 / (table[widest] / widest))
    n_past = min(_LONG, affordable, backend.n_ctx - widest)
    memory.release(0)
    for start in range(0, n_past, widest):
        _timed(backend, start, min(widest, n_past - start))
    found: dict[int, float] = {}
    for width in [width for width in _LONG_WIDTHS if width in table]:
        times = []
        for _ in range(_ROUNDS):
            memory.protect(0, n_past, width)
            times.append(_timed(backend, n_past, width))
            memory.rewind(0, n_past)
        found[width] = min(times)
    memory.release(0)
    return n_past, found


def bit_classes(backend: Backend, memory: Memory, widths: Sequence[int]) -> list[list[int]]:
    """Widths grouped by the exact logits they give the same row; one group is a bit-exact model."""
    groups: dict[bytes, list[int]] = {}
    tokens = [(i * 7919 + 13) % backend.n_vocab for i in range(_CONTEXT + max(widths))]
    for width in widths:
        memory.release(0)
        backend.decode([Span(0, 0, tokens[:_CONTEXT], 0, 0)])
        backend.decode([Span(0, _CONTEXT, tokens[_CONTEXT : _CONTEXT + width], width, 0)])
        groups.setdefault(backend.logits(0).tobytes(), []).append(width)
    memory.release(0)
    return list(groups.values())


def time_plain(backend: Backend, memory: Memory) -> float:
    """Milliseconds of a single row behind other single rows: a GPU repeats a step of the same width far faster.

    Wider steps are drafts, and those come in all widths: they are timed as the first of theirs.
    """
    memory.release(0)
    return min(_timed(backend, position, 1) for position in range(min(_PLAIN_STEPS, backend.n_ctx)))


def time_rows(backend: Backend, memory: Memory, width: int) -> float:
    """Milliseconds of one decode of so many rows on an empty sequence."""
    memory.release(0)
    return _timed(backend, 0, width)


def _timed(backend: Backend, position: int, width: int) -> float:
    tokens = [(i * 7919 + 13) % backend.n_vocab for i in range(width)]
    started = time.perf_counter()
    backend.decode([Span(0, position, tokens, width, 0)])
    backend.logits(width - 1)
    return (time.perf_counter() - started) * 1e3


def _key(assembly: Assembly) -> str:
    """A name for this model, machine, library and these settings."""
    path = assembly.model.path
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_HEAD_BYTES))
    facts = machine.describe()
    del facts["date"]
    settings = (path.stat().st_size, sorted(facts.items()), library.build(), assembly.context.config)
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
