"""Where an answer that left the text it was copying may have come back to it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from foretoken.speculation.drafters.source_index import SourceIndex
from foretoken.types import Token

_MAX_MATCH = 16
_N_LATEST = 4
"""Places tried for each run length when nothing says where in the text the answer is."""
_SAME_LENGTH = (0.0, 0.45, 0.25, 0.18, 0.12)
"""The odds that a change of so many tokens has just replaced as many, when nothing says so yet."""


class Hunch(NamedTuple):
    """A place where the answer may go on."""

    place: int
    probability: float
    """How likely its next token comes next."""
    share: float
    """How likely it is the place, and not another with the same next token."""
    match: int
    """Tokens before the place that agree with the answer."""


def likeliest(
    index: SourceIndex, tokens: Sequence[Token], anchors: Sequence[int], n_away: int, n_false: int
) -> Hunch | None:
    """The likeliest place in `tokens[:index.n_source]` to go on from.

    `anchors` are the places where the answer left the text, the latest first; since the latest it has
    emitted `n_away` tokens and only seemed to be back `n_false` times. Each place is weighed by how
    unlikely its agreement is by chance, and by how likely an answer resumes there at all: the closer
    to an anchor, the fewer tokens need to agree.
    """
    tail = tokens[-_MAX_MATCH:]
    odds: dict[int, tuple[float, int]] = {}
    n_ahead, n_behind = (2, 1) if anchors else (0, _N_LATEST)
    for place in index.near(tail, anchors or (index.n_source,), n_ahead, n_behind):
        if place not in odds and place < index.n_source:
            match, weight = _evidence(index, tokens, tail, place)
            if match:
                inside = min(match, n_away)
                away = 1 + n_false + max(0, n_away - match - 4) / 8
                odds[place] = (
                    math.exp(min(weight, 60.0)) * _prior(index, anchors, place - inside) / away,
                    match,
                )
    if anchors and 0 < n_away < len(_SAME_LENGTH):
        place = anchors[0] + n_away
        if place < index.n_source:
            odds.setdefault(place, (_SAME_LENGTH[n_away], 0))
    if not odds:
        return None
    # Of equals the later place: of several versions of a text the last one is the one being worked on.
    best = max(odds, key=lambda place: (*odds[place], place))
    token = tokens[best]
    agreed = sum(chance for place, (chance, _) in odds.items() if tokens[place] == token)
    total = 1 + sum(chance for chance, _ in odds.values())
    return Hunch(best, agreed / total, odds[best][0] / total, odds[best][1])


def _evidence(index: SourceIndex, tokens: Sequence[Token], tail: Sequence[Token], place: int) -> tuple[int, float]:
    """How many tokens before `place` agree with the answer, and the log of how unlikely that is by chance."""
    match, weight = 0, 0.0
    for token in reversed(tail):
        if match >= place or tokens[place - 1 - match] != token:
            break
        # Neighbours are not independent: each further token says less than its rarity.
        weight += index.weight(token) * (0.6 if match else 1.0)
        match += 1
    return match, weight


def _prior(index: SourceIndex, anchors: Sequence[int], resumed: int) -> float:
    """How likely an answer resumes at a place, by how much of the text it would have left out or repeated."""
    if not anchors:
        return 0.5 / index.n_source
    likely = 0.1 / index.n_source
    for anchor in anchors:
        skipped = resumed - anchor
        near = 0.4 / (1 + skipped) ** 1.2 if skipped >= 0 else 0.1 / (1 - skipped) ** 1.2
        likely = max(likely, near)
    return likely
