"""What every drafter that only reads tokens shares: one reading per sequence, kept up to date."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from foretoken.speculation.base import NO_DRAFT, Draft, DraftAsk, Verdict
from foretoken.types import SeqId, Token

Guess = tuple[Sequence[Token], Sequence[float]]


@dataclass(slots=True)
class Reading:
    """How far one sequence has been read, and for whom."""

    owner: str | None
    """None for a sequence that was never begun: it shares with nobody."""
    n_prompt: int = 0
    n_read: int = 0
    last: Token = 0

    def continues(self, tokens: Sequence[Token]) -> bool:
        """Whether `tokens` is what was read, grown at its end."""
        n = self.n_read
        return n <= len(tokens) and (n == 0 or tokens[n - 1] == self.last)


R = TypeVar("R", bound=Reading)


class TextDrafter(ABC, Generic[R]):
    """Keeps one `Reading` per sequence; a drafter says how to read on and what to guess."""

    name: str = ""

    def __init__(self) -> None:
        self._readings: dict[SeqId, R] = {}

    @abstractmethod
    def _open(self, owner: str | None, prompt: Sequence[Token]) -> R:
        """An empty reading of a sequence that starts with `prompt`."""

    @abstractmethod
    def _read(self, reading: R, tokens: Sequence[Token]) -> None:
        """Take in `tokens[reading.n_read:]`."""

    @abstractmethod
    def _guess(self, reading: R, tokens: Sequence[Token], n_max: int) -> Guess | None:
        """At most `n_max` tokens that may follow `tokens`, all of which have been read."""

    def _learn(self, reading: R, verdict: Verdict) -> None:
        """Feedback on the last guess made from this reading."""

    def _close(self, reading: R) -> None:
        """The request is over: pass on what its owner's next one may use."""

    def memory_bytes(self) -> int:
        """Roughly the bytes held for all sequences and owners."""
        return sum(self._size(reading) for reading in self._readings.values())

    def _size(self, reading: R) -> int:
        """Roughly the bytes that one reading holds."""
        return 0

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        """A new request starts in a slot; whatever the slot held is over."""
        self.end(seq)
        self._start(seq, prompt, owner)

    def draft(self, asks: Sequence[DraftAsk]) -> list[Draft]:
        """One draft per ask."""
        return [self._draft_one(ask) for ask in asks]

    def accept(self, seq: SeqId, verdict: Verdict) -> None:
        """Feedback on a draft of this drafter's own."""
        reading = self._readings.get(seq)
        if reading is not None:
            self._learn(reading, verdict)

    def end(self, seq: SeqId) -> None:
        """The request is over."""
        reading = self._readings.pop(seq, None)
        if reading is not None:
            self._close(reading)

    def _start(self, seq: SeqId, prompt: Sequence[Token], owner: str | None) -> R:
        reading = self._readings[seq] = self._open(owner, prompt)
        reading.n_prompt = len(prompt)
        self._catch_up(reading, prompt)
        return reading

    def _catch_up(self, reading: R, tokens: Sequence[Token]) -> None:
        if len(tokens) > reading.n_read:
            self._read(reading, tokens)
            reading.n_read = len(tokens)
            reading.last = tokens[-1]

    def _draft_one(self, ask: DraftAsk) -> Draft:
        tokens = ask.tokens
        reading = self._readings.get(ask.seq)
        if reading is None:
            reading = self._start(ask.seq, tokens, None)
        elif not reading.continues(tokens):
            reading = self._start(ask.seq, tokens, reading.owner)
        else:
            self._catch_up(reading, tokens)
        if ask.n_max <= 0 or not tokens:
            return NO_DRAFT
        guess = self._guess(reading, tokens, ask.n_max)
        if not guess or not guess[0]:
            return NO_DRAFT
        return Draft(tuple(guess[0]), tuple(guess[1]), self.name)


def gram_hashes(tokens: Sequence[Token], n: int, first: int, last: int) -> Iterable[int]:
    """The hash of the `n` tokens before each position in `first .. last - 1`; `first` is at least `n`."""
    if first >= last:
        return ()
    return map(hash, zip(*(tokens[first - n + j : last - n + j] for j in range(n)), strict=True))


def follow(tokens: Sequence[Token], start: int, n: int) -> Sequence[Token]:
    """The `n` tokens from `start` on; past the end the copy goes on with what it copied."""
    piece = tokens[start : start + n]
    if len(piece) == n or not piece:
        return piece
    period = len(piece)
    return [piece[i % period] for i in range(n)]


def decided(confidence: float, n: int, settled: float = 0.985) -> list[float]:
    """Confidence of a copied run: the doubt is in the first tokens, the rest mostly follows from them."""
    out = [confidence]
    for _ in range(n - 1):
        confidence += (settled - confidence) * 0.4
        out.append(confidence)
    return out
