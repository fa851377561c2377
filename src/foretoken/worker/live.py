"""What the engine is doing, in numbers small enough to be asked for every second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from foretoken.engine.loop import Loop
from foretoken.engine.slot import Slot
from foretoken.speculation.ledger import Balance
from foretoken.speculation.statistics import DrafterStatistics
from foretoken.worker.messages import DrafterState, LiveState, SlotState

_POSITIONS = 32
"""Places of a draft that are told apart."""


def slot_states(loop: Loop) -> Iterator[SlotState]:
    for slot in loop.scheduler.slots:
        yield _slot(slot, loop.backend.n_ctx, loop.cache.n_kept_bytes(slot.id))


def live_state(loop: Loop, uptime: float) -> LiveState:
    """Everything a live view shows; runs between two steps."""
    speculator = loop.speculator
    outlook = speculator.planner.outlook()
    return LiveState(
        uptime=uptime,
        slots=tuple(slot_states(loop)),
        n_decodes=loop.n_decodes,
        totals=asdict(loop.totals),
        drafters={
            name: _drafter(statistics, outlook.balances.get(name, Balance()))
            for name, statistics in speculator.statistics.items()
        },
        curve=dict(outlook.curve),
        cache=loop.cache.counters(),
        widths={width: (steps.n, steps.ms) for width, steps in speculator.widths.items()},
    )


def _slot(slot: Slot, n_ctx: int, n_kept_bytes: int) -> SlotState:
    session, sequence = slot.session, slot.sequence
    if session is None:
        return SlotState(slot.id, n_ctx, len(sequence.tokens), sequence.n_cached, n_kept_bytes=n_kept_bytes)
    return SlotState(
        slot.id,
        n_ctx,
        len(sequence.tokens),
        sequence.n_cached,
        session.request.id,
        session.choice,
        len(session.prompt),
        session.n_emitted,
        session.n_wanted,
        session.prefilling,
        session.n_cached,
        n_kept_bytes,
    )


def _drafter(statistics: DrafterStatistics, balance: Balance) -> DrafterState:
    return DrafterState(
        statistics.offered,
        statistics.verified,
        statistics.accepted,
        statistics.missed,
        statistics.failures,
        statistics.begin.ms + statistics.draft.ms + statistics.accept.ms + statistics.read.ms,
        balance.saved_ms,
        balance.lost_ms,
        tuple(statistics.verified_at[:_POSITIONS]),
        tuple(statistics.accepted_at[:_POSITIONS]),
    )
