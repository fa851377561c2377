"""A place in the model's memory where one session at a time is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.engine.sequence import Sequence
from foretoken.engine.session import Session
from foretoken.types import SeqId


@dataclass(frozen=True, slots=True)
class Following:
    """Waiting for another slot's session to have read as far as the prompts agree."""

    slot: Slot
    session: Session
    position: int


@dataclass(eq=False, slots=True)
class Slot:
    """A sequence of the context, its tokens, and the session using it; the tokens outlive the session."""

    id: SeqId
    sequence: Sequence = field(default_factory=Sequence)
    session: Session | None = None
    follows: Following | None = None
    """Somebody reading the same prompt, or one that begins alike: wait, then clone the memory."""
    last_used: int = 0
    owner: str = ""
    """Whose tokens these are: another owner's session finds the slot empty."""
    keeps: bool = False
    """Whether what the slot holds may be kept when the slot is needed for something else."""
    kept: bool = True
    """Whether what the slot holds need not be written to disk (again)."""

    @property
    def free(self) -> bool:
        return self.session is None
