"""The last requests of every owner, kept in memory for their pages; never shown to another owner."""

from __future__ import annotations

import time
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from foretoken.server.record import Record
from foretoken.server.shapes import Choice
from foretoken.types import Request

_MAX_BYTES = 32 << 20
_PROMPT_TOKENS = 1024
_TOKEN_BYTES = 240
_ALTERNATIVE_BYTES = 120
_STEP_BYTES = 160
"""What objects of these kinds take about."""


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """One HTTP request that was answered, or whose client left."""

    id: str
    owner: str
    path: str
    request: Request
    """The first one, without its prompt."""
    prompt: array[int]
    """The end of the first prompt."""
    n_prompt: int
    choices: tuple[Choice, ...]
    ended: float = field(default_factory=time.time)

    @property
    def n_bytes(self) -> int:
        """Roughly what keeping it takes."""
        return 2000 + 4 * len(self.prompt) + sum(_size(choice) for choice in self.choices)


class KeptRequests:
    """So many per owner, and so many bytes altogether; the oldest go first."""

    def __init__(self, n_per_owner: int, max_bytes: int = _MAX_BYTES) -> None:
        self._n_per_owner = n_per_owner
        self._max_bytes = max_bytes
        self._kept: dict[str, OrderedDict[str, KeptRequest]] = {}
        self.n_bytes = 0

    def keep(self, record: Record, requests: Sequence[Request], choices: Sequence[Choice]) -> None:
        """Remember a request that is over; one that got no answer at all is not worth it."""
        if self._n_per_owner == 0 or not any(choice.tokens or choice.finish for choice in choices):
            return
        prompt = requests[0].prompt
        assert not isinstance(prompt, str | bytes)
        one = KeptRequest(
            record.id,
            record.owner,
            record.path,
            replace(requests[0], prompt=()),
            array("i", prompt[-_PROMPT_TOKENS:]),
            len(prompt),
            tuple(choices),
        )
        n_bytes = one.n_bytes
        if n_bytes > self._max_bytes:
            return
        self._forget(record.owner, record.id)
        self._kept.setdefault(record.owner, OrderedDict())[record.id] = one
        self.n_bytes += n_bytes
        if len(self._kept[record.owner]) > self._n_per_owner:
            self._forget(record.owner, next(iter(self._kept[record.owner])))
        while self.n_bytes > self._max_bytes:
            oldest = min((next(iter(kept.values())) for kept in self._kept.values()), key=lambda kept: kept.ended)
            self._forget(oldest.owner, oldest.id)

    def get(self, owner: str, name: str) -> KeptRequest | None:
        kept = self._kept.get(owner)
        return kept.get(name) if kept else None

    def of(self, owner: str) -> list[KeptRequest]:
        """What is kept for an owner, the latest first."""
        return list(reversed(self._kept.get(owner, OrderedDict()).values()))

    def _forget(self, owner: str, name: str) -> None:
        kept = self._kept.get(owner)
        if kept and (gone := kept.pop(name, None)) is not None:
            self.n_bytes -= gone.n_bytes
            if not kept:
                del self._kept[owner]


def _size(choice: Choice) -> int:
    n_alternatives = sum(len(info.top) for info in choice.tokens)
    return (
        _TOKEN_BYTES * len(choice.tokens)
        + _ALTERNATIVE_BYTES * n_alternatives
        + _STEP_BYTES * len(choice.steps)
        + 4 * len(choice.text)
    )
