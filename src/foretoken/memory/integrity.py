"""Proof that memory holds what the engine believes it holds."""

from __future__ import annotations

from collections.abc import Mapping

from foretoken.backend import Backend
from foretoken.errors import IntegrityError
from foretoken.types import SeqId


def check_integrity(backend: Backend, lengths: Mapping[SeqId, int]) -> None:
    """Raise unless every sequence holds each of its positions exactly once, from 0 up to its length."""
    for seq, length in lengths.items():
        if (held := backend.length(seq)) != length:
            raise IntegrityError(f"sequence {seq} holds {held} tokens, the engine counts {length}")
        positions = backend.held(seq)
        if positions is not None and sorted(positions) != list(range(length)):
            raise IntegrityError(f"sequence {seq} should hold 0..{length - 1} once each: {_fault(positions, length)}")


def _fault(positions: list[int], length: int) -> str:
    twice = sorted({p for p in positions if positions.count(p) > 1})
    missing = sorted(set(range(length)) - set(positions))
    beyond = sorted(p for p in set(positions) if p >= length)
    return f"twice {twice[:8]}, missing {missing[:8]}, beyond the end {beyond[:8]}"
