"""From timed answers to a ratio and how far it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretoken.bench.answers import Answer

_RESAMPLES = 2000
_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Sample:
    """So many tokens took so long."""

    n_tokens: int
    ms: float

    @property
    def ms_per_token(self) -> float:
        return self.ms / max(1, self.n_tokens)


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times faster, with a confidence interval; None where one round cannot give one."""

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        interval = "" if self.low is None else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.value:.2f}{interval}"


@dataclass(frozen=True, slots=True)
class Difference:
    """How much longer something takes than its base, with a confidence interval."""

    base: float
    other: float
    value: float
    low: float
    high: float


def difference(pairs: Sequence[tuple[float, float]], seed: int = 0) -> Difference:
    """The median of what each pair differs by; the interval is a bootstrap over pairs."""
    base, other = np.array(pairs, np.float64).T
    more = other - base
    draws = np.random.default_rng(seed).integers(0, len(more), (_RESAMPLES, len(more)))
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(np.median(more[draws], axis=1), [tail, 1 - tail])
    before, after, value = (float(np.median(values)) for values in (base, other, more))
    return Difference(before, after, value, float(low), float(high))


def sample(answers: Sequence[Answer]) -> Sample:
    """The pace of answers made at once: from when all of them have begun to when the last one ends.

    One answer alone is timed by whoever made it; its first token comes with the prompt and is not counted.
    """
    if len(answers) == 1:
        return Sample(answers[0].n_tokens - 1, answers[0].generation_ms)
    told = [answer.marks for answer in answers if answer.marks]
    if not told:
        return Sample(0, 0.0)
    start, end = max(marks[0][0] for marks in told), max(marks[-1][0] for marks in told)
    n = sum(n for marks in told for at, n in marks if at > start)
    if not n:
        start = min(marks[0][0] for marks in told)
        n = sum(n for marks in told for at, n in marks if at > start)
    return Sample(n, (end - start) * 1e3)


def speed(groups: Sequence[Sequence[Sample]]) -> float:
    """Tokens per second of a workload: every group of requests by its median round."""
    paces, weights = _paces(groups), _weights(groups)
    ms = float((np.median(paces, axis=1) * weights).sum())
    return float(weights.sum()) / ms * 1e3 if ms else 0.0


def ratio(plain: Sequence[Sequence[Sample]], other: Sequence[Sequence[Sample]], seed: int = 0) -> Ratio:
    """How many times faster `other` is than `plain`: groups of requests, each with its rounds.

    The interval is a bootstrap over rounds, drawn in pairs: plain and other were asked one after the other.
    """
    ours, theirs, weights = _paces(other), _paces(plain), _weights(plain)
    # Groups without a timed token, such as answers that end at once, say nothing.
    weights = weights * ours.all(axis=1) * theirs.all(axis=1)
    if not weights.any():
        return Ratio(0.0)
    draws = _draws(ours, seed)
    resampled = [np.take_along_axis(paces[None], draws, axis=2) for paces in (theirs, ours)]
    value = float(_time(theirs, weights) / _time(ours, weights))
    return _with_interval(value, _time(resampled[0], weights) / _time(resampled[1], weights), ours.shape[1])


def paired_ratio(plain: Sequence[Sequence[Sample]], other: Sequence[Sequence[Sample]], seed: int = 0) -> Ratio:
    """The same where plain and other were made in the same moments, so that the machine was as fast for both.

    Plain's whole time over the other's at one speed of the machine: what a group took plainly (in its fastest round)
    is shortened by the median of its rounds' ratios. The interval is a bootstrap over rounds.
    """
    ours, theirs = _paces(other), _paces(plain)
    timed = ours.all(axis=1) & theirs.all(axis=1)
    if not timed.any():
        return Ratio(0.0)
    shorter = ours[timed] / theirs[timed]
    weights = (_weights(plain) * theirs.min(axis=1))[timed]
    resampled = np.take_along_axis(shorter[None], _draws(shorter, seed), axis=2)
    value = float(weights.sum() / _time(shorter, weights))
    return _with_interval(value, weights.sum() / _time(resampled, weights), shorter.shape[1])


def _draws(rounds: NDArray[np.float64], seed: int) -> NDArray[np.intp]:
    """For every group, which of its rounds are drawn."""
    return np.random.default_rng(seed).integers(0, rounds.shape[1], (_RESAMPLES, *rounds.shape))


def _with_interval(value: float, resampled: NDArray[np.float64], n_rounds: int) -> Ratio:
    if n_rounds < 2:
        return Ratio(value)
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail])
    return Ratio(value, float(low), float(high))


def _time(paces: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = (np.median(paces, axis=-1) * weights).sum(axis=-1)
    return total


def _paces(groups: Sequence[Sequence[Sample]]) -> NDArray[np.float64]:
    return np.array([[one.ms_per_token for one in rounds] for rounds in groups], np.float64)


def _weights(groups: Sequence[Sequence[Sample]]) -> NDArray[np.float64]:
    return np.array([rounds[0].n_tokens for rounds in groups], np.float64)
