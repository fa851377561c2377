"""Taking tokens back: one law, several ways to keep it."""

from foretoken.memory.base import Memory, Needs
from foretoken.memory.checkpoint import Checkpoint, HostCheckpoint
from foretoken.memory.fork import Fork
from foretoken.memory.ring import Ring
from foretoken.memory.trim import Trim

KINDS: dict[str, type[Memory]] = {kind.name: kind for kind in (Trim, Fork, Checkpoint, HostCheckpoint, Ring)}

__all__ = ["KINDS", "Checkpoint", "Fork", "HostCheckpoint", "Memory", "Needs", "Ring", "Trim"]
