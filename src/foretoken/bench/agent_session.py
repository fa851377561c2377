"""A recorded agent session: what a client sends turn after turn, the same to every server.

The assistant's messages are the recorded ones, without reasoning: so the next turn never continues what the server
itself just said, which is what clients that strip the reasoning do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

Message = dict[str, Any]

_FILE = "workloads/files/agent-session.json"


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of the session."""

    title: str
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation with tools, from its first to its last request."""

    tools: tuple[Message, ...]
    turns: tuple[Turn, ...]


def load() -> Session:
    """The session that comes with the package: 20 turns, a regeneration and an edit of an earlier message."""
    recorded = json.loads(files("foretoken.bench").joinpath(_FILE).read_text(encoding="utf-8"))
    first = {"role": "system", "content": recorded["system"]}
    return Session(tuple(recorded["tools"]), tuple(_turns(first, recorded["steps"])))


def _turns(first: Message, steps: list[dict[str, Any]]) -> Iterator[Turn]:
    messages = [first]
    asked: list[int] = []
    for step in steps:
        if "edit" in step:
            # The question before the last one is asked in other words; what followed is gone.
            messages[asked[-2] :] = [{"role": "user", "content": step["edit"]}]
            del asked[-1:]
        for message in step.get("add", ()):
            if message["role"] == "user":
                asked.append(len(messages))
            messages.append(message)
        yield Turn(step["title"], tuple(messages))
