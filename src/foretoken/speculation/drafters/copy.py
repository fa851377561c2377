"""`copy`: the answer repeats a text from the prompt with changes; keep the place and learn the changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foretoken.speculation.drafters.alignment import Alignment
from foretoken.speculation.drafters.run_index import Shelf
from foretoken.speculation.drafters.source_index import SIZES
from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter
from foretoken.types import Token


@dataclass(slots=True)
class _Reading(Reading):
    alignment: Alignment | None = None


class CopyDrafter(TextDrafter[_Reading]):
    """Copies from where the answer stands in the prompt, and applies the changes it made before."""

    name = "copy"

    def __init__(self, *, n_max: int = 64, p_min: float = 0.15) -> None:
        super().__init__()
        if n_max < 1 or not 0 <= p_min < 1:
            raise ValueError("n_max must be at least 1 and p_min between 0 and 1")
        self.n_max = n_max
        self.p_min = p_min
        self._sources = Shelf(SIZES)

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _Reading:
        return _Reading(owner)

    def _read(self, reading: _Reading, tokens: Sequence[Token]) -> None:
        if reading.alignment is None:
            reading.alignment = Alignment(self._sources.read(reading.owner, tokens[: reading.n_prompt]))
        reading.alignment.advance(tokens, max(reading.n_read, reading.n_prompt))

    def _guess(self, reading: _Reading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        if reading.alignment is None:
            return None
        return reading.alignment.follow(tokens, min(n_max, self.n_max), self.p_min)

    def _size(self, reading: _Reading) -> int:
        return reading.alignment.index.memory_bytes() if reading.alignment else 0
