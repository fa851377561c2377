"""Where in a given text an answer stands while it repeats that text with changes."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.speculation.drafters.resume import Hunch, likeliest
from foretoken.speculation.drafters.run_index import RunIndex
from foretoken.speculation.drafters.source_index import SourceIndex
from foretoken.speculation.drafters.substitutions import Rule, Substitutions
from foretoken.types import Token

CONFIRMED = 3
"""Tokens that must agree before a place found again is believed."""
_N_ANCHORS = 2
_TAKEN = 0.3
"""How likely a place must be to be taken; a wrong one costs a step, waiting costs one as well."""


class Alignment:
    """Follows an answer through the text it may copy: `place` is what it would copy next, None when lost."""

    def __init__(self, source: RunIndex) -> None:
        self.index = SourceIndex(source)
        self.n_source = len(source)
        self.rules = Substitutions()
        self.place: int | None = None
        self.hunch: Hunch | None = None
        self.doubt = 1.0
        """How likely `place` is wrong."""
        self.n_copied = 0
        self.n_edits = 0
        self._anchors: list[int] = []
        """Places where the answer left the text, the latest first."""
        self._gap = len(source)
        """Where in the answer it left the text the last time."""
        self._start = 0
        """Where in the text the present copy began."""
        self._run = 0
        self._n_false = 0
        """Places taken since then that proved wrong."""
        self._change: tuple[int, tuple[Token, ...], tuple[Token, ...]] | None = None
        self._applying: tuple[Rule, int] | None = None

    @property
    def hazard(self) -> float:
        """How likely the next token is the start of an edit."""
        return (self.n_edits + 0.7) / (self.n_copied + 25)

    def advance(self, tokens: Sequence[Token], first: int) -> None:
        """Follow the answer through `tokens[first:]`."""
        at, n = first, len(tokens)
        while at < n and self.place is not None:
            n_plain = self._plain(tokens, at)
            if n_plain:
                self._agree(tokens, n_plain)
                at += n_plain
            elif self._step(tokens, at):
                at += 1
        if self.place is None:
            self._find(tokens)

    def _plain(self, tokens: Sequence[Token], at: int) -> int:
        """How many tokens from `at` on are copied at places where no rule applies."""
        if self._applying is not None or self.place is None:
            return 0
        place = self.place
        end = self.rules.next_place(tokens, place, min(place + len(tokens) - at, self.n_source))
        new, old = tokens[at : at + end - place], tokens[place:end]
        if new == old:
            return end - place
        return next(i for i, (token, known) in enumerate(zip(new, old, strict=True)) if token != known)

    def _step(self, tokens: Sequence[Token], at: int) -> bool:
        """Take `tokens[at]` as the next token of the copy; False, and lost, when it is not."""
        assert self.place is not None
        token, place = tokens[at], self.place
        if self._applying is not None:
            return self._continue_rule(tokens, at)
        if place < self.n_source and tokens[place] == token:
            self.rules.kept(tokens, place)
            self._agree(tokens, 1)
            return True
        rule = self.rules.starting(tokens, place, token) if place < self.n_source else None
        if rule is None or place + len(rule.old) >= self.n_source:
            self._lose(at)
            return False
        if len(rule.new) > 1:
            self._applying = (rule, 1)
            return True
        rule.count(tokens[place - 1], True)
        self.place = place + len(rule.old)
        if not rule.new:
            self._agree(tokens, 1)
        return True

    def _continue_rule(self, tokens: Sequence[Token], at: int) -> bool:
        """Take `tokens[at]` as the next token of a change under way."""
        assert self.place is not None
        assert self._applying is not None
        rule, i = self._applying
        left = tokens[self.place - 1]
        self._applying = None
        if tokens[at] != rule.new[i]:
            rule.count(left, False)
            self._lose(at - i)
            return False
        if i + 1 < len(rule.new):
            self._applying = (rule, i + 1)
        else:
            rule.count(left, True)
            self.place += len(rule.old)
        return True

    def _agree(self, tokens: Sequence[Token], n: int) -> None:
        assert self.place is not None
        self.place += n
        self.n_copied += n
        self._run += n
        self.doubt = _less(self.doubt, n)
        self._settle(tokens)

    def _lose(self, at: int) -> None:
        """The answer left the text at `tokens[at]`; a place that was never confirmed is no anchor."""
        assert self.place is not None
        if self._run >= CONFIRMED:
            self._gap = at
            self._anchors = [self.place, *self._anchors[: _N_ANCHORS - 1]]
            self._n_false = 0
            self.n_edits += 1
        else:
            self._n_false += 1
        self.place = None
        self._change = None
        self._run = 0

    def _find(self, tokens: Sequence[Token]) -> None:
        """Look for the place again; take it if it is likely enough."""
        self.hunch = likeliest(self.index, tokens, self._anchors, len(tokens) - self._gap, self._n_false)
        if self.hunch is None or self.hunch.share < _TAKEN or not self.hunch.match:
            return
        place, match = self.hunch.place, self.hunch.match
        self.place = place
        self.doubt = 1 - self.hunch.probability
        self._run = match - 1
        if not self._anchors:
            self._start = place
            self._run = match
            return
        # What agrees lies after the change, unless it reaches back over it: then text was only left out.
        n_new = max(0, len(tokens) - self._gap - match)
        origin, left = self._anchors[0], place - min(match, len(tokens) - self._gap)
        if origin <= left and (n_new or left > origin):
            self._change = (origin, tuple(tokens[origin:left]), tuple(tokens[self._gap : self._gap + n_new]))
            self._settle(tokens)

    def _settle(self, tokens: Sequence[Token]) -> None:
        """Learn the last change once enough of what follows agrees."""
        if self._run >= CONFIRMED and self._change is not None:
            self.rules.learn(tokens, self._start, *self._change)
            self._change = None

    def follow(self, tokens: Sequence[Token], n_max: int, p_min: float) -> tuple[list[Token], list[float]]:
        """The next `n_max` tokens of the copy with the changes to be expected, and how sure each is."""
        if self.place is not None:
            place, doubt = self.place, self.doubt
        elif self.hunch is not None and self.hunch.probability >= p_min:
            place, doubt = self.hunch.place, 1 - self.hunch.probability
        else:
            return [], []
        found: list[Token] = []
        sure: list[float] = []
        keep = 1 - self.hazard
        if self._applying is not None:
            rule, i = self._applying
            found += rule.new[i:]
            sure += [keep] * len(found)
            place += len(rule.old)
        while len(found) < n_max and place < self.n_source:
            end = self.rules.next_place(tokens, place, min(place + n_max - len(found), self.n_source))
            found += tokens[place:end]
            sure += [keep] * (end - place)
            place = end
            if len(found) < n_max and place < self.n_source:
                place = self._follow_rule(tokens, place, found, sure)
        for i in range(len(sure)):
            if doubt < 0.005:
                break
            sure[i] *= 1 - doubt
            doubt = _less(doubt, 1)
        return found[:n_max], sure[:n_max]

    def _follow_rule(self, tokens: Sequence[Token], place: int, found: list[Token], sure: list[float]) -> int:
        """Draft the change to be expected at `place`, or the token that stands there; the place after it."""
        rule, p = self.rules.best(tokens, place)
        if p > 0.5:
            found += rule.new
            sure += [p, *[0.97] * (len(rule.new) - 1)][: len(rule.new)]
            place += len(rule.old)
            if rule.old or place >= self.n_source:
                return place
            p = 0.0
        found.append(tokens[place])
        sure.append((1 - self.hazard) * (1 - p))
        return place + 1


def _less(doubt: float, n: int) -> float:
    """The doubt that is left in a place when `n` more tokens agree with it."""
    return doubt / (doubt + 3.0 ** min(n, 20) * (1 - doubt)) if doubt else 0.0
