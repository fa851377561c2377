"""Every step is told as it was: what the steps say adds up to what the answers and the totals say."""

from __future__ import annotations

import random
from functools import partial

import pytest

from foretoken.memory import KINDS, Memory, Ring
from foretoken.types import MODEL, Chunk, Event, Finish, Usage
from tests.engine.harness import finish
from tests.engine.test_loop_toy import loop_for, random_request


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("adversary", ["random", "right", "half-right"])
def test_steps_add_up(kind: type[Memory], adversary: str) -> None:
    for seed in range(8):
        rng = random.Random(seed)
        loop = loop_for(kind, 1 if kind is Ring else 3, adversary, seed)
        events: dict[tuple[int, int], list[Event]] = {}
        for number in range(4):
            request = random_request(rng)
            loop.submit(request, list(request.prompt), partial(_keep, events, number))
        finish(loop)
        usages = [_check(answer) for answer in events.values()]
        totals = loop.totals
        assert totals.emitted == sum(usage.completion_tokens for usage in usages)
        assert totals.drafted == sum(usage.drafted for usage in usages)
        assert totals.accepted == sum(usage.accepted for usage in usages)
        assert totals.replayed == sum(usage.replayed for usage in usages)
        assert totals.rewinds == sum(usage.rewinds for usage in usages)
        assert sum(steps.n for steps in loop.speculator.widths.values()) <= loop.n_decodes


def _keep(events: dict[tuple[int, int], list[Event]], number: int, event: Event) -> None:
    events.setdefault((number, event.choice), []).append(event)


def _check(answer: list[Event]) -> Usage:
    *chunks, end = answer
    assert isinstance(end, Finish)
    told = [chunk for chunk in chunks if isinstance(chunk, Chunk) and chunk.step]
    assert all(chunk.tokens for chunk in told)
    assert [token for chunk in chunks for token in chunk.tokens] == [t for chunk in told for t in chunk.tokens]
    for chunk in told:
        step = chunk.step
        guessed = [token.origin for token in chunk.tokens if token.origin != MODEL]
        assert guessed == [step.drafter] * step.accepted
        assert step.accepted <= step.drafted
        assert step.width >= 1 + step.drafted + step.replayed
        assert step.ms >= 0
    usage = end.usage
    assert sum(chunk.step.drafted for chunk in told) == usage.drafted
    assert sum(chunk.step.accepted for chunk in told) == usage.accepted
    assert sum(chunk.step.replayed for chunk in told) == usage.replayed
    return usage
