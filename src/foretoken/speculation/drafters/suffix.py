"""`suffix`: the longest match of the end of the sequence, in itself and in its owner's earlier answers.

An answer is remembered with the end of its prompt: a question that is asked again is foreseen from its first token on.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

from foretoken.speculation.drafters.owners import Owners
from foretoken.speculation.drafters.run_index import RunIndex, Shelf
from foretoken.speculation.drafters.text import Guess, Reading, TextDrafter, follow, gram_hashes
from foretoken.types import Token

ANCHORS = (16, 6, 3)
"""Lengths at which the ends of earlier text are indexed; a match is found at the longest that has one."""
_STEPS = (4, 5, 8, 12, 20, 24, 32, 48, 64)
_LONG = 256
"""Tokens of a prompt from which on sorting all of it at once takes less time than one by one."""
_BORDER = -1
"""Stands between two answers in an owner's past."""


class SuffixIndex:
    """Where each run of n tokens (n in `ANCHORS`) ended, the last place first."""

    def __init__(self, known: RunIndex | None = None) -> None:
        """`known` is an index of the text's beginning."""
        self._known = known
        self._first = 0 if known is None else len(known) + 1
        """The first place that is not known."""
        self.n_read = self._first
        self._heads: tuple[dict[int, int], ...] = tuple({} for _ in ANCHORS)
        self._older = tuple(array("i") for _ in ANCHORS)
        """For each place from the first on the previous one that ends the same run; 0 where there is none."""

    def extend(self, tokens: Sequence[Token]) -> None:
        """Index `tokens` from where the last call stopped; the end itself has no follower yet and waits."""
        last = len(tokens)
        for n, heads, older in zip(ANCHORS, self._heads, self._older, strict=True):
            first = max(self.n_read, n)
            older.extend([0] * (min(first, last) - self._first - len(older)))
            for at, key in enumerate(gram_hashes(tokens, n, first, last), first):
                older.append(heads.get(key, 0))
                heads[key] = at
        self.n_read = max(self.n_read, last)

    def find(self, tail: Sequence[Token], text: Sequence[Token], n_max: int) -> list[tuple[int, int]]:
        """Up to `n_max` of the latest places in `text` that end like `tail`, as (length of match, place)."""
        for n, heads, older in zip(ANCHORS, self._heads, self._older, strict=True):
            if len(tail) < n:
                continue
            run = tail[-n:]
            places: list[tuple[int, int]] = []
            for at in chain(self._latest(run, heads, older), self._known_ends(run, len(text))):
                if text[at - n : at] == run:
                    places.append((_match_length(tail, text, at, n), at))
                    if len(places) == n_max:
                        break
            if places:
                return places
        return []

    def _latest(self, run: Sequence[Token], heads: Mapping[int, int], older: Sequence[int]) -> Iterator[int]:
        at = heads.get(hash(tuple(run)), 0)
        while at:
            yield at
            at = older[at - self._first]

    def _known_ends(self, run: Sequence[Token], end: int) -> Iterator[int]:
        """Places in the known beginning, the last first; nothing follows the text's own end."""
        if self._known is not None:
            yield from (at for at in reversed(self._known.ends(run)) if at < end)

    def memory_bytes(self) -> int:
        """Roughly the bytes held."""
        tables = sum(sys.getsizeof(heads) + 60 * len(heads) for heads in self._heads)
        return tables + sum(map(sys.getsizeof, self._older))


def _match_length(tail: Sequence[Token], text: Sequence[Token], at: int, n: int) -> int:
    """How far the end of `tail` agrees with the text before `at`, known to be at least `n`, roughly."""
    for longer in _STEPS:
        if longer > n:
            if longer > at or longer > len(tail) or text[at - longer : at] != tail[-longer:]:
                break
            n = longer
    return n


@dataclass(slots=True)
class Past:
    """The earlier answers of one owner, bounded: the oldest go first."""

    tokens: list[Token] = field(default_factory=list)
    index: SuffixIndex = field(default_factory=SuffixIndex)

    def add(self, answer: Sequence[Token], limit: int) -> None:
        self.tokens.extend(answer[-limit:])
        self.tokens.append(_BORDER)
        if len(self.tokens) > limit:
            del self.tokens[: -limit // 2]
            self.index = SuffixIndex()

    def find(self, tail: Sequence[Token], n_max: int) -> list[tuple[int, int]]:
        """The latest places that end like `tail`; only now is indexed what was added."""
        self.index.extend(self.tokens)
        return self.index.find(tail, self.tokens, n_max)


@dataclass(slots=True)
class _Reading(Reading):
    past: Past = field(kw_only=True)
    index: SuffixIndex = field(default_factory=SuffixIndex)
    answer: list[Token] = field(default_factory=list)
    """With the end of the prompt before it."""
    n_lead: int = 0
    """So much of it is prompt."""


class SuffixDrafter(TextDrafter[_Reading]):
    """Lets the places that match longest vote on each next token."""

    name = "suffix"

    def __init__(self, *, n_max: int = 48, max_places: int = 8, max_past: int = 16384, max_owners: int = 8) -> None:
        super().__init__()
        if n_max < 1 or max_places < 1 or max_past < 2:
            raise ValueError("n_max and max_places must be at least 1, max_past at least 2")
        self.n_max = n_max
        self.max_places = max_places
        self.max_past = max_past
        self.past = Owners(Past, max_owners)
        self._prompts = Shelf(ANCHORS)

    def _open(self, owner: str | None, prompt: Sequence[Token]) -> _Reading:
        lead = list(prompt[-_STEPS[-1] :])
        index = SuffixIndex(self._prompts.read(owner, prompt) if len(prompt) >= _LONG else None)
        return _Reading(owner, past=self.past.of(owner), index=index, answer=lead, n_lead=len(lead))

    def _read(self, reading: _Reading, tokens: Sequence[Token]) -> None:
        reading.index.extend(tokens)
        reading.answer.extend(tokens[max(reading.n_read, reading.n_prompt) :])

    def _guess(self, reading: _Reading, tokens: Sequence[Token], n_max: int) -> Guess | None:
        n_max = min(n_max, self.n_max)
        tail = tokens[-_STEPS[-1] :]
        here = reading.index.find(tail, tokens, self.max_places)
        before = reading.past.find(list(tail), self.max_places)
        if not here and not before:
            return None
        longest = max(length for length, _ in (*here, *before))
        votes: dict[tuple[Token, ...], int] = {}
        for text, places in ((tokens, here), (reading.past.tokens, before)):
            for length, at in places:
                if 2 * length >= longest:
                    run = tuple(follow(text, at, n_max) if text is tokens else text[at : at + n_max])
                    votes[run] = votes.get(run, 0) + length
        return _elect(votes, longest)

    def _close(self, reading: _Reading) -> None:
        if reading.owner is not None and len(reading.answer) > reading.n_lead:
            reading.past.add(reading.answer, self.max_past)

    def memory_bytes(self) -> int:
        """Roughly the bytes held for all sequences and owners."""
        indexes = [reading.index for reading in self._readings.values()]
        tokens = sum(8 * len(past.tokens) for past in self.past)
        prompts = self._prompts.memory_bytes()
        return prompts + tokens + sum(index.memory_bytes() for index in (*indexes, *(past.index for past in self.past)))


def _elect(votes: dict[tuple[Token, ...], int], longest: int) -> Guess:
    """Follow the majority token by token; sure as far as the match is long and the votes agree."""
    found: list[Token] = []
    sure: list[float] = []
    runs = list(votes.items())
    while len(runs) > 1:
        i = len(found)
        ballot: dict[Token, int] = {}
        for run, weight in runs:
            if i < len(run) and run[i] != _BORDER:
                ballot[run[i]] = ballot.get(run[i], 0) + weight
        if not ballot:
            return found, sure
        token = max(ballot, key=ballot.__getitem__)
        share = ballot[token] / sum(ballot.values())
        found.append(token)
        # A leader that has rivals is right less often than its share of the votes.
        sure.append(share * share * _trust(longest + i))
        runs = [(run, weight) for run, weight in runs if i < len(run) and run[i] == token]
    run = runs[0][0]
    end = run.index(_BORDER) if _BORDER in run else len(run)
    sure += [_trust(longest + i) for i in range(len(found), end)]
    found += run[len(found) : end]
    return found, sure


def _trust(length: int) -> float:
    """How often one place that matches this far predicts the next token, as measured on code and prose."""
    return 1 - 0.75 / length
