"""What a slot holds, saved to a file and loaded from one, by hand."""

from __future__ import annotations

from pathlib import Path

from foretoken.cache import files
from foretoken.cache.files import Saved
from foretoken.cache.forest import owner_key
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.engine.persistence import identity
from foretoken.engine.slot import Slot
from foretoken.errors import ForetokenError, InvalidRequest


class SlotBusy(ForetokenError):
    """The slot is answering; try again when it has finished."""


def save_slot(engine: Engine, number: int, owner: str, path: Path | None) -> tuple[int, int]:
    """Write all that a slot holds to a file; returns the number of tokens and of bytes."""
    assert path is not None
    fingerprint = identity(engine.assembly)

    def copy(loop: Loop) -> Saved:
        slot = _free_slot(loop, number)
        if slot.owner != owner or not slot.sequence.held:
            raise InvalidRequest(f"slot {number} holds nothing of yours that could be saved")
        tokens, parts = loop.cache.copy_out(slot.id, slot.sequence.held)
        return Saved(fingerprint, owner_key(owner), tokens, parts)

    saved = engine.call(copy)
    return len(saved.tokens), files.write(path, saved)


def restore_slot(engine: Engine, number: int, owner: str, path: Path | None) -> tuple[int, int]:
    """Let a slot hold what was saved; it must be the same owner's, model's and settings'."""
    assert path is not None
    if not path.is_file():
        raise InvalidRequest(f"there is no saved slot named {path.name}")
    size = path.stat().st_size
    header, _, _ = files.peek(path)
    if header.owner != owner_key(owner):
        raise InvalidRequest(f"there is no saved slot named {path.name}")
    if header.fingerprint != identity(engine.assembly):
        raise InvalidRequest(f"{path.name} was saved with another model, library, number of slots or KV type")
    if header.n_tokens > engine.n_ctx:
        raise InvalidRequest(f"{path.name} holds {header.n_tokens} tokens and a slot {engine.n_ctx}; use a larger -c")
    saved = files.read(path)

    def put_back(loop: Loop) -> None:
        loop.scheduler.load(_free_slot(loop, number), owner, saved.tokens.tolist(), saved.parts)

    engine.call(put_back)
    return len(saved.tokens), size


def erase_slot(engine: Engine, number: int, owner: str, path: Path | None) -> tuple[int, int]:
    """Forget what a slot holds, if it is the owner's; returns how many tokens that were."""

    def erase(loop: Loop) -> int:
        slot = _free_slot(loop, number)
        n = len(slot.sequence.tokens) if slot.owner == owner else 0
        if n:
            loop.scheduler.erase(slot)
        return n

    return engine.call(erase), 0


def _free_slot(loop: Loop, number: int) -> Slot:
    if not 0 <= number < len(loop.scheduler.slots):
        raise InvalidRequest(f"there is no slot {number}; there are {len(loop.scheduler.slots)}")
    slot = loop.scheduler.slots[number]
    if not slot.free:
        raise SlotBusy(f"slot {number} is answering; try again when it has finished")
    return slot
