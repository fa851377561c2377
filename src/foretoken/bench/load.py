"""Servers under load: so many streaming clients at once, for long answers and for short ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from foretoken.bench.serving import Served
from foretoken.bench.statistics import Ratio, Sample, ratio, speed
from foretoken.bench.wire import Address, body, crowd
from foretoken.errors import ForetokenError

Progress = Callable[[str], None]

_ROUNDS_PER_CLIENT = 2
_FEWEST = 8


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How many clients, and what each of them asks."""

    clients: tuple[int, ...] = (1, 4, 16, 64)
    n_rounds: int = 3
    n_long: int = 64
    """Tokens of an answer where tokens per second are counted."""
    n_short: int = 4
    """Tokens of an answer where requests per second are counted."""


@dataclass(frozen=True, slots=True)
class Pace:
    """One server at one number of clients; ratios are against the first server."""

    tokens_per_second: float
    requests_per_second: float
    tokens_ratio: Ratio
    requests_ratio: Ratio


@dataclass(frozen=True, slots=True)
class Row:
    """All servers at one number of clients."""

    n_clients: int
    paces: dict[str, Pace]


_Samples = dict[tuple[str, int, bool], list[Sample]]


def n_steps(plan: LoadPlan, n_servers: int) -> int:
    """How often progress is told about."""
    return plan.n_rounds * n_servers * len(plan.clients)


def measure(servers: Sequence[Served], plan: LoadPlan, say: Progress) -> list[Row]:
    """Every server in every round, one after another and never two at once: engines spin."""
    samples: _Samples = {}
    for number in range(plan.n_rounds):
        # Whoever is first in one round is last in the next.
        for server in servers if number % 2 == 0 else servers[::-1]:
            with server.started() as address:
                asyncio.run(crowd(address, 1, _asked(4, plan.n_long)))
                for n_clients in plan.clients:
                    say(f"{server.label}, {n_clients} clients, round {number + 1}")
                    for short in (False, True):
                        n_tokens = plan.n_short if short else plan.n_long
                        found = _load(address, n_clients, n_tokens, short)
                        samples.setdefault((server.label, n_clients, short), []).append(found)
    labels = [server.label for server in servers]
    return [Row(n, {label: _pace(samples, label, labels[0], n) for label in labels}) for n in plan.clients]


def _load(address: Address, n_clients: int, n_tokens: int, short: bool) -> Sample:
    """How long so many questions took; short answers are counted, long ones by their tokens."""
    asked = _asked(max(_FEWEST, _ROUNDS_PER_CLIENT * n_clients), n_tokens)
    started = time.perf_counter()
    heard = asyncio.run(crowd(address, n_clients, asked))
    ms = (time.perf_counter() - started) * 1e3
    if wrong := [one.n_tokens for one in heard if one.n_tokens != n_tokens]:
        raise ForetokenError(f"asked for {n_tokens} tokens, got {wrong[0]}: is the context (-c) too small?")
    return Sample(len(heard) if short else n_tokens * len(heard), ms)


def _asked(n: int, n_tokens: int) -> list[bytes]:
    return [body(f"def function_{number}(a, b):\n", n_tokens) for number in range(n)]


def _pace(samples: _Samples, label: str, first: str, n_clients: int) -> Pace:
    values = []
    for short in (False, True):
        base, ours = samples[first, n_clients, short], samples[label, n_clients, short]
        values.append((speed([ours]), ratio([base], [ours])))
    (tokens, tokens_ratio), (requests, requests_ratio) = values
    return Pace(tokens, requests, tokens_ratio, requests_ratio)
