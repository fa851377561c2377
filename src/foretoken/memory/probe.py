"""Finding out by experiment which memories work on a loaded model, how exactly, and at what cost."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Backend, Span
from foretoken.errors import ConfigError, DecodeError, ForetokenError, IntegrityError
from foretoken.memory import KINDS
from foretoken.memory.base import Memory, Needs
from foretoken.types import Token

OpenBackend = Callable[[Needs], AbstractContextManager[Backend]]

N_CTX = 256
"""Tokens of context that a probe needs."""
_PROMPT, _DRAFT, _KEPT, _ROUNDS = 9, 4, 2, 5
_NOISE = 0.1
"""Relative distance of logits that kernels may cause; a wrong state is an order of magnitude away."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What an experiment said about one memory."""

    memory: str
    works: bool
    exact: bool = False
    protect_ms: float = 0.0
    rewind_ms: float = 0.0
    restores: bool = False
    """Whether what was copied to the host and back goes on as if it had never left."""
    reason: str = ""

    @property
    def cost_ms(self) -> float:
        return self.protect_ms + self.rewind_ms


def candidates(recurrent: bool, n_parallel: int, exact: bool) -> list[type[Memory]]:
    """The memories worth trying for a promise; the ring is not one: it costs on every step."""
    if not recurrent:
        return [KINDS["trim"]]
    kinds = [KINDS["checkpoint"], KINDS["checkpoint-host"]]
    # One pool of cells for several slots lets a neighbour change the order of summation.
    return kinds if exact and n_parallel > 1 else [KINDS["fork"], *kinds]


def probe(open_backend: OpenBackend, kinds: Sequence[type[Memory]], n_parallel: int, n_rollback: int) -> list[Trial]:
    """Try each memory in a small context of its own."""
    return [_try(open_backend, kind, n_parallel, n_rollback) for kind in kinds]


def choose(trials: Sequence[Trial], exact: bool) -> Trial:
    """The cheapest memory that keeps the promise, or the cheapest that works where none keeps it."""
    working = [trial for trial in trials if trial.works]
    if not working:
        raise ConfigError("no memory works on this model: " + "; ".join(f"{t.memory}: {t.reason}" for t in trials))
    keeping = [trial for trial in working if trial.exact or not exact]
    return min(keeping or working, key=lambda trial: trial.cost_ms)


def refuse_wrong_choice(name: str, recurrent: bool, n_parallel: int) -> None:
    """Raise with the reason when a memory is forced that cannot serve."""
    if name not in KINDS:
        raise ConfigError(f"unknown memory {name!r}; choose one of auto, {', '.join(KINDS)}")
    if reason := KINDS[name].refusal(recurrent, n_parallel):
        raise ConfigError(f"--memory {name}: {reason}")


def _try(open_backend: OpenBackend, kind: type[Memory], n_parallel: int, n_rollback: int) -> Trial:
    try:
        with open_backend(kind.needs(n_parallel, n_rollback)) as backend:
            return _experiment(backend, kind(backend))
    except ForetokenError as error:
        return Trial(kind.name, works=False, reason=str(error))


def _experiment(backend: Backend, memory: Memory) -> Trial:
    tokens = [(i * 7919 + 13) % backend.n_vocab for i in range(_PROMPT + _DRAFT + 1)]
    wanted = _fresh(backend, memory, tokens, range(len(tokens)))
    protect, rewind, found, reached = [], [], wanted, 0
    for _ in range(_ROUNDS):
        found, reached, spent = _rewound(backend, memory, tokens)
        protect.append(spent[0])
        rewind.append(spent[1])
    # Kernels differ by width, and some networks make much of it: whether the state was right shows in equal batches.
    alike = _fresh(backend, memory, tokens, sorted({0, _PROMPT, reached}))
    distance = _distance(found, alike)
    works = distance < _NOISE
    return Trial(
        memory.name,
        works=works,
        exact=works and bool((found == wanted).all()),
        protect_ms=statistics.median(protect),
        rewind_ms=statistics.median(rewind),
        restores=works and _restores(backend, memory, tokens),
        reason="" if works else f"after a rewind the logits are off by {distance:.0%}",
    )


def _distance(found: NDArray[np.float32], wanted: NDArray[np.float32]) -> float:
    """How far logits are from those wanted, against their spread."""
    if not np.isfinite(found).all():
        return math.inf
    return float(np.linalg.norm(found - wanted) / (np.linalg.norm(wanted - wanted.mean()) + 1e-9))


def _restores(backend: Backend, memory: Memory, tokens: Sequence[Token]) -> bool:
    """Copy out a state and, further on, the cells; forget everything; copy both in and go on from the state."""
    memory.release(0)
    _decode(backend, tokens, 0, _PROMPT)
    try:
        state = backend.export(0, "state") if backend.recurrent else None
        if backend.cells_complete:
            _decode(backend, tokens, _PROMPT, _PROMPT + _DRAFT)
        cells = backend.export(0, "cells") if backend.attention else None
        memory.release(0)
        memory.adopt(0, _PROMPT, cells, state)
        last = _decode(backend, tokens, _PROMPT, len(tokens))
    except (DecodeError, IntegrityError):
        memory.release(0)
        return False
    found = backend.logits(last).copy()
    return _distance(found, _fresh(backend, memory, tokens, (0, _PROMPT))) < _NOISE


def _fresh(backend: Backend, memory: Memory, tokens: Sequence[Token], starts: Sequence[int]) -> NDArray[np.float32]:
    """The last logits of a chain that nothing was ever taken from, decoded in batches that begin at `starts`."""
    memory.release(0)
    last = 0
    for start, end in zip(starts, (*starts[1:], len(tokens)), strict=True):
        last = _decode(backend, tokens, start, end)
    return backend.logits(last).copy()


def _rewound(
    backend: Backend, memory: Memory, tokens: Sequence[Token]
) -> tuple[NDArray[np.float32], int, tuple[float, float]]:
    """The same logits after a draft was decoded and all but a part of it taken back, and how far back that went."""
    memory.release(0)
    _decode(backend, tokens, 0, _PROMPT)
    started = time.perf_counter()
    memory.protect(0, _PROMPT, _DRAFT)
    protected = time.perf_counter()
    _decode(backend, tokens, _PROMPT, _PROMPT + _DRAFT)
    decoded = time.perf_counter()
    reached = memory.rewind(0, _PROMPT + _KEPT)
    rewound = time.perf_counter()
    if reached < _PROMPT:
        raise IntegrityError(f"a rewind to {_PROMPT + _KEPT} went back to {reached}")
    last = _decode(backend, tokens, reached, len(tokens))
    return backend.logits(last).copy(), reached, ((protected - started) * 1e3, (rewound - decoded) * 1e3)


def _decode(backend: Backend, tokens: Sequence[Token], start: int, end: int) -> int:
    """Decode a stretch of the tokens on the first sequence; returns the row that has logits."""
    backend.decode([Span(0, start, tokens[start:end], 1, 0)])
    return end - start - 1
