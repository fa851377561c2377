"""A drafter in one file: it finishes a line the way the same beginning was finished before."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict


class LinesDrafter:
    """Finishes a line the way the same beginning was finished before."""

    name = "lines"

    def __init__(self, *, n_key: int = 3, n_max: int = 24) -> None:
        if n_key < 1 or n_max < 1:
            raise ValueError("n_key and n_max must be at least 1")
        self.n_key = n_key
        self.n_max = n_max
        self._places: dict[int, dict[tuple[int, ...], int]] = {}
        self._n_read: dict[int, int] = {}

    def begin(self, seq: int, prompt: Sequence[int], owner: str) -> None:
        self._places[seq] = {}
        self._n_read[seq] = 0

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        return [self._one(ask) for ask in asks]

    def _one(self, ask: DraftAsk) -> Draft:
        tokens, places = ask.tokens, self._places[ask.seq]
        # Read only what is new: where did every run of n_key tokens last end?
        for end in range(max(self.n_key, self._n_read[ask.seq]), len(tokens)):
            places[tuple(tokens[end - self.n_key : end])] = end
        self._n_read[ask.seq] = len(tokens)
        place = places.get(tuple(tokens[-self.n_key :]))
        if place is None:
            return NO_DRAFT
        guess = tuple(tokens[place : place + min(self.n_max, ask.n_max)])
        return Draft(guess, (0.7,) * len(guess), self.name)

    def accept(self, seq: int, verdict: Verdict) -> None:
        pass

    def end(self, seq: int) -> None:
        self._places.pop(seq, None)
        self._n_read.pop(seq, None)
