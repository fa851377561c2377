"""What a step costs by its width: calibrated once, kept current by every step."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from math import log2

_NEWS = 0.05
"""How much of a width's own estimate one measured step replaces."""
_MEASURED = 3
"""In how many steps what was calibrated is as well known."""
_BIG_NEWS = 0.5
"""How much of it one step replaces that took so long, or so short, that the machine alone cannot explain it."""
_DRIFT_NEWS = 0.3
"""The machine's speed and the context's length move all widths together, and faster."""
_COMPANY_NEWS = 0.1
"""How much of what is known of steps with drafts of several slots one of them replaces."""
_BESIDE_NEWS = 0.1
"""How much of what steps take beside computing one of them replaces."""
_SURPRISE = 3.0
"""A step that took many times longer than expected was held up: it counts as so many times, not as more."""
_SLOW = 1.5
"""A step that took this many times longer says nothing yet; the next one of its kind, if it does too, is believed."""


class _Doubt:
    """Tells steps that were held up once from those that have become slow.

    A width that is believed to be dear is not taken again, so nothing would ever correct what one hiccup said of it.
    """

    def __init__(self) -> None:
        self._doubted: set[object] = set()

    def dismisses(self, kind: object, ms: float, expected_ms: float) -> bool:
        """Whether nothing should be learnt from a step of this kind."""
        slow = ms > _SLOW * expected_ms
        dismissed = slow and kind not in self._doubted
        (self._doubted.add if slow else self._doubted.discard)(kind)
        return dismissed


class StepCost:
    """Estimates t(rows) in milliseconds; between known widths it interpolates, beyond them it extends.

    The table is of computing alone. What the engine does beside it, batch by batch, takes as long for one row as for
    many: a share of the table that grew with it would make drafts look dearer than they are.
    """

    def __init__(self, table: Mapping[int, float]) -> None:
        if not table or min(table) != 1:
            raise ValueError("a cost table must begin with width 1")
        self._table = dict(sorted(table.items()))
        self._widths = list(self._table)
        self._drift = 1.0
        self._beside_ms = 0.0
        self._n_plain = 0
        self._seen: dict[int, int] = {}
        self._doubt = _Doubt()
        self._memo: dict[int, float] = {}

    def __call__(self, n_rows: int) -> float:
        """Expected milliseconds of a step with so many rows, now."""
        return self._base(n_rows) * self._drift + self._beside_ms

    @property
    def widths(self) -> Sequence[int]:
        """The widths that were measured: between them nothing can be cheaper than at their ends."""
        return self._widths

    def table(self) -> dict[int, float]:
        """Expected milliseconds at every measured width, now."""
        return {width: self(width) for width in self._widths}

    def observe(self, n_rows: int, ms: float, beside_ms: float = 0.0, n_steps: int = 1) -> None:
        """Learn from a step that took `ms`, `beside_ms` of them not for computing, or from several like it."""
        if self._doubt.dismisses(n_rows, ms, self(n_rows)):
            return
        if n_rows == 1:
            self._n_plain += n_steps
            self._beside_ms += max(_all(_BESIDE_NEWS, n_steps), n_steps / self._n_plain) * (beside_ms - self._beside_ms)
        plausible_ms = self.plausible(n_rows, ms)
        ratio = max(plausible_ms / _SURPRISE, plausible_ms - self._beside_ms) / self._base(n_rows)
        by = ratio / self._drift
        # Calibration knows widths well, and a machine is a third slower in one minute than in the next: what is not
        # much more than that moves them all. Width 1 anchors the scale: what moves it moves everything.
        of_machine = n_rows == 1 or 1 / _SLOW < by < _SLOW
        if of_machine:
            self._drift += _all(_DRIFT_NEWS, n_steps) * (ratio - self._drift)
        if n_rows != 1 and n_rows in self._table:
            seen = self._seen[n_rows] = self._seen.get(n_rows, 0) + 1
            news = max(_NEWS, 1 / (_MEASURED + seen)) if of_machine else _BIG_NEWS
            self._correct(n_rows, news * (ratio / self._drift - 1))

    def _correct(self, n_rows: int, by: float) -> None:
        """A width takes so much longer, relative, and less so those next to it, up to twice as wide.

        By itself it would seem dear after one slow moment of the machine, and not be taken again.
        """
        for width in self._widths[1:]:
            near = 1.0 - abs(log2(width / n_rows))
            if near > 0:
                self._table[width] *= 1 + near * by
        self._memo.clear()

    def plausible(self, n_rows: int, ms: float) -> float:
        """A measured time without what must have been a hiccup of the machine, or of its clock."""
        return _plausible(ms, self(n_rows))

    def _base(self, n_rows: int) -> float:
        if n_rows not in self._memo:
            self._memo[n_rows] = self._interpolate(max(1, n_rows))
        return self._memo[n_rows]

    def _interpolate(self, n_rows: int) -> float:
        at = bisect_left(self._widths, n_rows)
        if at < len(self._widths) and self._widths[at] == n_rows:
            return self._table[n_rows]
        if at == len(self._widths):
            last = self._widths[-1]
            return self._table[last] * n_rows / last
        low, high = self._widths[at - 1], self._widths[at]
        share = (n_rows - low) / (high - low)
        return self._table[low] + share * (self._table[high] - self._table[low])


class BatchCost:
    """Estimates what a step takes from the rows of each of its slots."""

    def __init__(self, curve: StepCost, in_passes: bool) -> None:
        self.curve = curve
        self._in_passes = in_passes
        """Recurrent models compute sequences of unequal length in passes of equal length."""
        self._company: dict[tuple[int, bool], float] = {}
        """By number of slots, plain steps apart, how much longer than by the curve theirs take.

        A GPU repeats a plain step of several slots as fast as one of a single slot; a step with drafts it does not.
        """
        self._seen: dict[tuple[int, bool], int] = {}
        self._doubt = _Doubt()

    def __call__(self, rows: Sequence[int]) -> float:
        """Expected milliseconds, now."""
        return self._by_curve(rows) * self._company.get(_kind(rows), 1.0)

    def observe(self, rows: Sequence[int], ms: float, beside_ms: float = 0.0, n_steps: int = 1) -> None:
        """Learn from a step that took `ms`, `beside_ms` of them not for computing, or from several like it."""
        if len(rows) == 1:
            self.curve.observe(rows[0], ms, beside_ms, n_steps)
        elif rows:
            kind, by_curve = _kind(rows), self._by_curve(rows)
            known = self._company.get(kind, 1.0)
            if self._doubt.dismisses(kind, ms, known * by_curve):
                return
            ratio = _plausible(ms, known * by_curve) / by_curve
            seen = self._seen[kind] = self._seen.get(kind, 0) + n_steps
            n_slots, plain = kind
            if plain:
                news, drafted = _all(_DRIFT_NEWS, n_steps), (n_slots, False)
                if drafted in self._company and seen > n_steps:
                    # There are few of those: what the machine does is seen in plain steps.
                    self._company[drafted] *= 1 + news * (ratio / known - 1)
                self._company[kind] = known + max(news, n_steps / seen) * (ratio - known)
            else:
                self._company[kind] = known + max(_COMPANY_NEWS, 1 / seen) * (ratio - known)

    def plausible(self, rows: Sequence[int], ms: float) -> float:
        """A measured time without what must have been a hiccup of the machine."""
        return _plausible(ms, self(rows))

    def _by_curve(self, rows: Sequence[int]) -> float:
        if len(rows) == 1 or not self._in_passes:
            return self.curve(sum(rows))
        total, done, left = 0.0, 0, sorted(rows)
        while left:
            total += self.curve((left[0] - done) * len(left))
            done = left[0]
            left = [n for n in left if n > done]
        return total


def _all(news: float, n_steps: int) -> float:
    """What is replaced by as many steps of which one alone replaces `news`."""
    return news if n_steps == 1 else 1.0 - (1.0 - news) ** n_steps


def _kind(rows: Sequence[int]) -> tuple[int, bool]:
    return len(rows), max(rows, default=1) == 1


def _plausible(ms: float, expected: float) -> float:
    return max(expected / _SURPRISE, min(ms, _SURPRISE * expected))
