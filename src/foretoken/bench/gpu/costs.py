"""What single operations cost on a loaded model: steps by width, taking tokens back, the loop, other bits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Backend, Span
from foretoken.config import ContextConfig, EngineConfig
from foretoken.engine.loop import Loop
from foretoken.errors import ConfigError, ForetokenError
from foretoken.llama.bare import BareLoop
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.llama.mtp import MtpContext
from foretoken.memory import KINDS, Memory
from foretoken.speculation.base import DraftAsk
from foretoken.speculation.drafters.mtp import MtpDrafter
from foretoken.speculation.speculator import Speculator
from foretoken.types import Request, SamplingParams, Token

WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 96, 128)
_IN_A_ROW = 5
_ROUNDS = 12
_DRAFT = 8
_N_ROLLBACK = 8
_PATTERNS = ((1,), (8,), (8, 5), (16,), (16, 11), (32,), (1, 8), (1, 1, 1, 1, 8), (64,))
_STREAM = 8
_MTP_DRAFTS = (1, 2, 3, 4)


def widths(model: Model, n_past: int, sizes: Sequence[int] = WIDTHS) -> dict[str, dict[int, float]]:
    """t(width) in ms behind `n_past` tokens: repeated, repeated with the logits of one row, after a fork's return."""
    steady: dict[int, float] = {}
    forked: dict[int, float] = {}
    quiet: dict[int, float] = {}
    with _context(model, "fork", n_past + _IN_A_ROW * max(sizes)) as context:
        memory = KINDS["fork"](context)
        _fill(context, n_past)
        for width in sizes:
            memory.protect(0, n_past, width)
            steady[width] = min([_step(context, n_past + i * width, width) for i in range(_IN_A_ROW)][2:])
            memory.rewind(0, n_past)
            memory.protect(0, n_past, width)
            quiet[width] = min([_step(context, n_past + i * width, width, 1) for i in range(_IN_A_ROW)][2:])
            memory.rewind(0, n_past)
            again = []
            for _ in range(_IN_A_ROW - 1):
                memory.protect(0, n_past, width)
                again.append(_step(context, n_past, width))
                memory.rewind(0, n_past)
            forked[width] = min(again[1:])
    return {"steady": steady, "logits_of_one_row": quiet, "after_fork": forked}


def memories(model: Model, n_past: int) -> dict[str, dict[str, Any]]:
    """Each way of taking tokens back: what its calls take, and what a round takes beyond its decode."""
    found: dict[str, dict[str, Any]] = {}
    for kind in KINDS.values():
        if reason := kind.refusal(model.recurrent, 1):
            found[kind.name] = {"refused": reason}
            continue
        try:
            with _context(model, kind.name, n_past + _ROUNDS * (_DRAFT + 4) + 64) as context:
                found[kind.name] = _memory(context, kind(context), n_past)
        except ForetokenError as error:
            found[kind.name] = {"refused": str(error)}
    return found


def _memory(context: Context, memory: Memory, n_past: int) -> dict[str, float]:
    _fill(context, n_past)
    alone = statistics.median([_step(context, n_past + i * _DRAFT, _DRAFT) for i in range(_ROUNDS)][2:])
    memory.release(0)
    _fill(context, n_past)
    position = n_past
    protect, rewind, rounds = [], [], []
    for _ in range(_ROUNDS):
        # Somewhere new, as after an accepted token: what is protected already costs nothing.
        _step(context, position, 2)
        position += 2
        started = time.perf_counter()
        memory.protect(0, position, _DRAFT)
        protected = time.perf_counter()
        _step(context, position, _DRAFT)
        decoded = time.perf_counter()
        position = memory.rewind(0, position + 2)
        rewound = time.perf_counter()
        protect.append(protected - started)
        rewind.append(rewound - decoded)
        # What a rewind left to do shows in the step after it, which is the next round's.
        rounds.append(rewound - started)
    calls = {"protect_us": protect, "rewind_us": rewind}
    costs = {name: statistics.median(times[2:]) * 1e6 for name, times in calls.items()}
    return {**costs, "round_extra_us": statistics.median(rounds[2:]) * 1e6 - alone * 1e3, "decode_8_ms": alone}


def streams(model: Model, n_past: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step when drafts are all right: protect and decode, the widths taken in turn."""
    found: dict[str, dict[str, float]] = {}
    for name in ("fork", "checkpoint", "ring"):
        kind = KINDS[name]
        patterns = [one for one in _PATTERNS if name != "ring" or max(one) <= _N_ROLLBACK]
        with _context(model, name, n_past + sum(map(sum, patterns)) * _STREAM) as context:
            memory = kind(context)
            _fill(context, n_past)
            position = n_past
            for pattern in patterns:
                steps = []
                for width in [*pattern] * _STREAM:
                    started = time.perf_counter()
                    if width > 1:
                        memory.protect(0, position, width)
                    _step(context, position, width)
                    steps.append((time.perf_counter() - started) * 1e3)
                    position += width
                late = steps[len(steps) // 2 :]
                found.setdefault(name, {})["+".join(map(str, pattern))] = sum(late) / len(late)
    return found


def loop(model: Model, config: EngineConfig, n_tokens: int) -> dict[str, float]:
    """One token by the loop, plainly, beside one bare decode without sampling: alternating, each on its own context."""
    with _context(model, "fork", 1024) as ours, _context(model, "fork", 1024) as theirs:
        it = Loop(ours, KINDS["fork"](ours), model.vocabulary, Speculator(), config)
        endless = Request([1], SamplingParams(temperature=0), max_tokens=n_tokens + 16, ignore_eos=True)
        it.submit(endless, [1] * 8, lambda event: None)
        bare = BareLoop(theirs)
        times: dict[str, list[float]] = {"bare_ms": [], "loop_ms": []}
        for _ in range(n_tokens):
            for name, step in (("bare_ms", bare.step), ("loop_ms", it.step)):
                started = time.perf_counter()
                step()
                times[name].append((time.perf_counter() - started) * 1e3)
        bare.close()
        it.abort("measured")
    return {name: statistics.median(taken[8:]) for name, taken in times.items()}


def mtp(model: Model, n_past: int) -> dict[str, Any]:
    """What the prediction layer costs: plain steps beside it, its drafts, and the steps that verify them."""
    n_ctx = n_past + 2 * _ROUNDS + _ROUNDS * sum(1 + n for n in _MTP_DRAFTS)
    with _context(model, "fork", n_ctx) as context:
        _fill(context, n_past)
        plain = [_step(context, n_past + i, 1) for i in range(_ROUNDS)]
        position = n_past + _ROUNDS
        layer = MtpContext(context)
        with layer:
            beside = [_step(context, position + i, 1) for i in range(_ROUNDS)]
            position += _ROUNDS
            drafts = {}
            for n in _MTP_DRAFTS:
                drafts[n] = _mtp_drafts(context, MtpDrafter(_Lender(layer), n_max=n, p_min=0.0), position, n)
                position += _ROUNDS * (1 + n)
    return {"plain_ms": statistics.median(plain[2:]), "beside_ms": statistics.median(beside[2:]), "drafts": drafts}


def _mtp_drafts(context: Context, drafter: MtpDrafter, position: int, n: int) -> dict[str, float]:
    """Drafts of `n` tokens, each after a step that verified one as long: reading that step and guessing on."""
    steps, drafting = [], []
    tokens = _tokens(context, 0, position)
    memory = KINDS["fork"](context)
    for _ in range(_ROUNDS):
        memory.protect(0, position, 1 + n)
        steps.append(_step(context, position, 1 + n))
        span = Span(0, position, _tokens(context, position, 1 + n), 1 + n, 0)
        tokens += span.tokens
        position += 1 + n
        started = time.perf_counter()
        drafter.read([span])
        drafter.draft([DraftAsk(0, [*tokens, 1], n)])
        drafting.append((time.perf_counter() - started) * 1e3)
    return {"step_ms": statistics.median(steps[2:]), "draft_ms": statistics.median(drafting[2:])}


@dataclass(frozen=True, slots=True)
class _Lender:
    """Lends a prediction layer to its drafter."""

    layer: MtpContext
    n_slots: int = 1
    end_tokens: frozenset[Token] = frozenset()

    def mtp(self) -> MtpContext:
        return self.layer

    def draft_model(self) -> tuple[Backend, Memory]:
        raise ConfigError("there is no draft model here")


def bits(model: Model, tokens: Sequence[Token], sizes: Sequence[int], kv_type: str) -> dict[str, dict[str, float]]:
    """A text read `width` rows at a time against one at a time: rows with other bits, with another best token."""
    found: dict[str, dict[str, float]] = {}
    with _context(model, "fork", len(tokens) + 64, kv_type) as context:
        memory = KINDS["fork"](context)
        alone = _read(context, memory, tokens, 1)
        for width in sizes:
            rows = _read(context, memory, tokens, width)
            same = (rows == alone).all(axis=1)
            found[str(width)] = {
                "rows": len(tokens),
                "other_bits": int((~same).sum()),
                "other_token": int((rows.argmax(axis=1) != alone.argmax(axis=1)).sum()),
                "largest_difference": float(np.abs(rows - alone).max()),
                "spread": float(alone.std()),
            }
    return found


def _read(context: Context, memory: Memory, tokens: Sequence[Token], width: int) -> NDArray[np.float32]:
    memory.release(0)
    rows = np.empty((len(tokens), context.n_vocab), np.float32)
    for start in range(0, len(tokens), width):
        part = tokens[start : start + width]
        context.decode([Span(0, start, part, len(part), 0)])
        for i in range(len(part)):
            rows[start + i] = context.logits(i)
    return rows


def _context(model: Model, memory: str, n_ctx: int, kv_type: str = "f16") -> Context:
    needs = KINDS[memory].needs(1, _N_ROLLBACK)
    config = ContextConfig(
        -(-n_ctx // 256) * 256,
        n_outputs=max(WIDTHS),
        n_threads=4,
        kv_type_k=kv_type,
        kv_type_v=kv_type,
        flash_attention="on",
    )
    unified = config.unified if needs.unified is None else needs.unified
    return Context(model, replace(config, unified=unified, n_shadows=needs.n_shadows, n_rollback=needs.n_rollback))


def _fill(context: Context, n_tokens: int) -> None:
    for start in range(0, n_tokens, context.n_batch):
        size = min(context.n_batch, n_tokens - start)
        context.decode([Span(0, start, _tokens(context, start, size), 1, 0)])
        context.logits(size - 1)


def _step(context: Context, start: int, width: int, n_outputs: int | None = None) -> float:
    """Milliseconds of one decode until its logits are here."""
    tokens = _tokens(context, start, width)
    started = time.perf_counter()
    context.decode([Span(0, start, tokens, n_outputs or width, 0)])
    context.logits(width - 1)
    return (time.perf_counter() - started) * 1e3


def _tokens(context: Context, start: int, n: int) -> list[Token]:
    return [(i * 7919 + 13) % context.n_vocab for i in range(start, start + n)]
