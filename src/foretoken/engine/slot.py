"""A place in the model's memory where one session at a time is answered."""

from __future__ import annotations

from dataclasses import dataclass, field

from foretoken.engine.sequence import Sequence
from foretoken.engine.session import Session
from foretoken.types import SeqId


@dataclass(eq=False, slots=True)
class Slot:
    """A sequence of the context, its tokens, and the session using it; the tokens outlive the session."""

    id: SeqId
    sequence: Sequence = field(default_factory=Sequence)
    session: Session | None = None
    leader: Slot | None = None
    """A slot reading the same prompt for another choice: wait for it, then clone its memory."""
    last_used: int = 0
    owner: str = ""
    """Whose tokens these are: another owner's session finds the slot empty."""

    @property
    def free(self) -> bool:
        return self.session is None
