"""What an answer changes again and again in the text it copies: renames, additions, removals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from foretoken.types import Token

Run = tuple[Token, ...]

MAX_RUN = 12
"""Longer changes are hardly ever repeated."""
MAX_RULES = 64
_LOOK_BACK = 256
_MAX_KEPT = 4


@dataclass(slots=True, eq=False)
class Rule:
    """`old` was replaced by `new`; either may be empty."""

    old: Run
    new: Run
    total: list[int] = field(default_factory=lambda: [0, 0])
    """How often it was applied, and how often not although it could have been."""
    by_left: dict[Token, list[int]] = field(default_factory=dict)
    """The same for each token that stood before."""

    def count(self, left: Token, applied: bool) -> None:
        self.total[not applied] += 1
        self.by_left.setdefault(left, [0, 0])[not applied] += 1

    def probability(self, left: Token) -> float:
        """How likely it is applied after `left`; other places count while that one is unknown."""
        applied, kept = self.by_left.get(left) or self.total
        return (applied + 0.3) / (applied + kept + 1)

    @property
    def refuted(self) -> bool:
        """Whether it is expected nowhere any more."""
        applied, kept = self.total
        return kept >= applied and all(kept >= applied for applied, kept in self.by_left.values())


class Substitutions:
    """The rules learnt in one answer, found by the place in the source where they could apply."""

    def __init__(self) -> None:
        self._by_old: dict[Token, list[Rule]] = {}
        """First token of `old` → rules that take something away."""
        self._by_left: dict[Token, list[tuple[Token, Rule]]] = {}
        """Token before → rules that only add, each with the token before that one."""
        self.n_rules = 0

    def learn(self, source: Sequence[Token], start: int, place: int, old: Run, new: Run) -> None:
        """At `place`, `old` became `new`; from `start` on the text before was copied."""
        if len(old) > MAX_RUN or len(new) > MAX_RUN or place < 2 or self.n_rules >= MAX_RULES:
            return
        for rule in self._at(source, place):
            if (rule.old, rule.new) == (old, new):
                rule.count(source[place - 1], True)
                return
        rule = Rule(old, new)
        rule.count(source[place - 1], True)
        if old:
            self._by_old.setdefault(old[0], []).append(rule)
        else:
            self._by_left.setdefault(source[place - 1], []).append((source[place - 2], rule))
        self.n_rules += 1
        self._look_back(rule, source, max(2, start, place - _LOOK_BACK), place)

    def _look_back(self, rule: Rule, source: Sequence[Token], start: int, end: int) -> None:
        """Count the places just before where a new rule could have applied and did not."""
        trigger, offset = (rule.old[0], 0) if rule.old else (source[end - 1], 1)
        text = source[start - offset : end - offset]
        at = 0
        for _ in range(min(text.count(trigger), _MAX_KEPT)):
            at = text.index(trigger, at) + 1
            place = start + at - 1
            if rule in self._at(source, place):
                rule.count(source[place - 1], False)

    def next_place(self, source: Sequence[Token], place: int, end: int) -> int:
        """The first place before `end` where a rule may apply, or `end`."""
        if self.n_rules:
            by_old, by_left = self._by_old, self._by_left
            for at in range(place, end):
                if source[at] in by_old or source[at - 1] in by_left:
                    return at
        return end

    def _at(self, source: Sequence[Token], place: int) -> list[Rule]:
        """The rules that could apply at `place`."""
        found = []
        for rule in self._by_old.get(source[place], ()):
            n = len(rule.old)
            if n == 1 or tuple(source[place : place + n]) == rule.old:
                found.append(rule)
        if place >= 2:
            for before, rule in self._by_left.get(source[place - 1], ()):
                if before == source[place - 2]:
                    found.append(rule)
        return found

    def best(self, source: Sequence[Token], place: int) -> tuple[Rule, float]:
        """The likeliest change at `place`, with its probability: 0 if there is none."""
        left = source[place - 1]
        best, highest = _NONE, 0.0
        for rule in self._at(source, place):
            p = rule.probability(left)
            if p > highest:
                best, highest = rule, p
        return best, highest

    def kept(self, source: Sequence[Token], place: int) -> None:
        """The text at `place` was copied as it stands."""
        for rule in self._at(source, place):
            rule.count(source[place - 1], False)
            if rule.refuted:
                self._forget(rule, source[place], source[place - 1])

    def _forget(self, rule: Rule, first: Token, left: Token) -> None:
        self.n_rules -= 1
        if rule.old:
            self._by_old[first].remove(rule)
            if not self._by_old[first]:
                del self._by_old[first]
        else:
            self._by_left[left] = [known for known in self._by_left[left] if known[1] is not rule]
            if not self._by_left[left]:
                del self._by_left[left]

    def starting(self, source: Sequence[Token], place: int, token: Token) -> Rule | None:
        """The likeliest rule that puts `token` where the source has another at `place`."""
        left = source[place - 1]
        found: Rule | None = None
        for rule in self._at(source, place):
            after = place + len(rule.old)
            first = rule.new[0] if rule.new else source[after] if after < len(source) else None
            if first == token and (found is None or rule.probability(left) > found.probability(left)):
                found = rule
        return found


_NONE = Rule((), ())
