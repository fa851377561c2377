"""What the engine lends to drafters that need more than tokens."""

from __future__ import annotations

from typing import Protocol

from foretoken.backend import Backend
from foretoken.memory import Memory


class Host(Protocol):
    """Passed to drafters whose constructor has a parameter named `host`."""

    @property
    def n_slots(self) -> int: ...

    def draft_model(self) -> tuple[Backend, Memory]:
        """The draft model's own context and memory, opened on first use.

        Raises `ConfigError` when no draft model was named or its vocabulary differs from the model's.
        """
        ...
