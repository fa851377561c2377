"""Nothing kept for one owner serves another."""

from __future__ import annotations

from foretoken.memory import KINDS
from foretoken.types import Request, SamplingParams
from tests.engine.harness import finish, submit
from tests.engine.test_loop_toy import loop_for

GREEDY = SamplingParams(temperature=0)


def test_a_slot_is_empty_for_another_owner() -> None:
    loop = loop_for(KINDS["trim"], 1, None)
    cached = []
    for owner in ("ann", "ann", "bob", "bob", "ann"):
        _, (answer,) = submit(loop, Request([1] * 20, GREEDY, max_tokens=2, ignore_eos=True, owner=owner))
        finish(loop)
        cached.append(answer.finish.usage.cached_tokens)
    assert cached == [0, 19, 0, 19, 0]
