"""The pieces of the state tree, each by itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.cache.anchors import anchors, message_ends
from foretoken.cache.thrift import Thrift
from foretoken.cache.tier import Newcomer, Tier
from foretoken.cache.tree import Entry, Node, Tree
from foretoken.config import CacheConfig
from foretoken.memory import Checkpoint, Memory, Trim
from foretoken.types import Request
from tests import toy
from tests.cache.conversations import GREEDY, NoThrift
from tests.engine.harness import ToyPieces, finish, make_loop, submit

TEXTS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=12), min_size=1, max_size=12)


@given(texts=TEXTS, probe=st.lists(st.integers(0, 3), max_size=14))
def test_a_tree_knows_how_far_it_knows_a_text(texts: list[list[int]], probe: list[int]) -> None:
    tree = Tree()
    nodes = [tree.insert(np.array(text, np.int32)) for text in texts]
    for text, node in zip(texts, nodes, strict=True):
        node.slots.add(0)
        assert node.tokens.tolist() == text
    match = tree.match(np.array(probe, np.int32))
    longest = max(sum(1 for n in range(1, len(text) + 1) if text[:n] == probe[:n]) for text in texts)
    assert match.depth == longest
    found = [node.tokens.tolist() for node in match.nodes]
    wanted = [node.tokens.tolist() for node in tree.root.below() if probe[: node.position] == node.tokens.tolist()]
    assert found == sorted(wanted, key=len, reverse=True)
    assert tree.n_token_bytes == sum(node.edge.nbytes for node in tree.root.below())
    for node in nodes:
        node.slots.clear()
        if node.parent is not None:
            tree.prune(node)
    assert tree.empty
    assert tree.n_token_bytes == 0


@given(
    ends=st.lists(st.integers(1, 3000), unique=True).map(sorted),
    start=st.integers(0, 2000),
    length=st.integers(1, 3000),
    n_max=st.integers(0, 40),
)
def test_anchors_are_apart_inside_and_few(ends: list[int], start: int, length: int, n_max: int) -> None:
    found = anchors(ends, start, length, 64, 512, n_max)
    assert found == sorted(found)
    assert len(found) <= n_max
    assert all(max(1, start) <= position < length for position in found)
    assert all(b - a >= 64 for a, b in pairwise(found))
    inside = [end for end in ends if start < end < length]
    if inside and n_max:
        assert inside[-1] in found, "where a regeneration starts"


def test_the_first_and_the_last_message_end_come_first() -> None:
    ends = message_ends([7] * 99 + [0] + [7] * 199 + [0] + [7] * 299 + [0] + [7] * 5, frozenset({0}))
    assert ends == [100, 300, 600]
    assert anchors(ends, 0, 605, 64, 512, 1) == [600]
    assert anchors(ends, 0, 605, 64, 512, 2) == [100, 600]
    assert anchors(ends, 0, 605, 64, 512, 9) == [100, 300, 512, 600]


@given(prompt=st.lists(st.integers(0, 5), max_size=40), n_times=st.integers(1, 60))
def test_message_ends_are_found_in_prompts_of_any_length(prompt: list[int], n_times: int) -> None:
    prompt = prompt * n_times
    assert message_ends(prompt, frozenset({0, 3})) == [i + 1 for i, token in enumerate(prompt) if token in (0, 3)]


def _entry(n_bytes: int) -> Entry:
    return Entry(Node(1, np.zeros(1, np.int32)), "state", n_bytes)


def test_what_is_cheap_per_byte_goes_first_and_what_is_used_stays() -> None:
    tier = Tier(100)
    worth = {_entry(50): 10.0, _entry(40): 100.0}
    cheap, dear = worth
    for entry in worth:
        tier.add(entry, entry.n_bytes)
    assert tier.victims(Newcomer(10, 5), worth.__getitem__) == []
    assert tier.victims(Newcomer(20, 1000), worth.__getitem__) == [cheap]
    tier.drop(cheap)
    assert tier.victims(Newcomer(101, 1e9), worth.__getitem__) is None, "it would never fit"
    assert tier.victims(Newcomer(80, 1), worth.__getitem__) is None, "not worth what would have to go"
    dear.n_users = 1
    assert tier.victims(Newcomer(80, 1e9), worth.__getitem__) is None, "somebody is using it"
    assert tier.n_bytes == 40


def test_a_copy_has_to_be_paid_for_before_the_next() -> None:
    thrift = Thrift(share=0.02)
    assert thrift.affordable
    thrift.copied(1000, 5.0)
    assert not thrift.affordable
    for _ in range(24):
        thrift.computed(10, 10.0, reading=True)
    assert not thrift.affordable
    for _ in range(2):
        thrift.computed(10, 10.0, reading=True)
    assert thrift.affordable
    assert thrift.spacing(1000) == pytest.approx(250, abs=1), "5 ms are 2% of what reading 250 tokens takes"
    assert thrift.pays(6, 1000, 1.0)
    assert not thrift.pays(4, 1000, 1.0)


@pytest.mark.parametrize("kind", [Trim, Checkpoint])
@pytest.mark.parametrize("budget", [0, 10**6])
def test_prompts_that_begin_alike_and_come_together_are_read_once(kind: type[Memory], budget: int) -> None:
    backend = toy.ToyBackend(3, recurrent=kind is not Trim, n_outputs=64)
    loop = make_loop(backend, kind(backend), ToyPieces(0), cache=CacheConfig(budget, gap=8))
    system = [1 + n % 23 for n in range(100)] + [0]
    asked = [submit(loop, Request([*system, *tail], GREEDY, max_tokens=2)) for tail in ([5, 6], [7, 8, 9], [5, 7])]
    finish(loop)
    usages = [answers[0].finish.usage for _, answers in asked if answers[0].finish]
    assert sum(usage.prompt_tokens - usage.cached_tokens for usage in usages) <= len(system) + 3 + 8
    assert sorted(usage.cached_tokens for usage in usages)[0] == 0


def test_owners_share_nothing_even_when_they_come_together() -> None:
    backend = toy.ToyBackend(2, n_outputs=64)
    loop = make_loop(backend, Checkpoint(backend), ToyPieces(0), cache=CacheConfig(10**6, gap=8))
    loop.cache.thrift = NoThrift()
    prompt = [1 + n % 23 for n in range(60)] + [0, 4, 5]
    for _ in range(2):
        asked = [submit(loop, Request(list(prompt), GREEDY, max_tokens=2, owner=owner)) for owner in ("ann", "bob")]
        finish(loop)
    again = [answers[0].finish.usage.cached_tokens for _, answers in asked if answers[0].finish]
    assert min(again) > 50, "each finds its own"
    _, (fresh,) = submit(loop, Request(list(prompt), GREEDY, max_tokens=2, owner="eve"))
    finish(loop)
    assert fresh.finish is not None
    assert fresh.finish.usage.cached_tokens == 0
