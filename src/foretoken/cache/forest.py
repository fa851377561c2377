"""One tree per owner, and which slot's own memory holds what of them."""

from __future__ import annotations

import hashlib

from foretoken.cache.tree import Match, Node, Tree
from foretoken.ids import Ids
from foretoken.types import SeqId

_NOTHING = Tree()


def owner_key(owner: str) -> str:
    """How an owner is called in the forest and on disk."""
    return hashlib.blake2b(owner.encode(), person=b"foretoken-owner", digest_size=16).hexdigest()


class Forest:
    """Everything that is known of texts, owner by owner; nothing of one is found by another."""

    def __init__(self) -> None:
        self._trees: dict[str, Tree] = {}
        self._pins: dict[SeqId, Node] = {}

    @property
    def n_token_bytes(self) -> int:
        return sum(tree.n_token_bytes for tree in self._trees.values())

    def match(self, key: str, text: Ids) -> Match:
        return self._trees.get(key, _NOTHING).match(text)

    def insert(self, key: str, text: Ids) -> Node:
        return self._trees.setdefault(key, Tree()).insert(text)

    def prune(self, node: Node) -> None:
        """Let go of what a node no longer needs, and of a tree with nothing in it."""
        root = list(node.path)[-1]
        key, tree = next((key, tree) for key, tree in self._trees.items() if tree.root is root)
        tree.prune(node)
        if tree.empty:
            del self._trees[key]

    def pinned(self, seq: SeqId) -> Node | None:
        """Up to where a slot's own memory holds a text."""
        return self._pins.get(seq)

    def pin(self, seq: SeqId, node: Node) -> None:
        """A slot's own memory now holds what leads to this node, and nothing beyond it."""
        before = self._pins.get(seq)
        if before is node:
            return
        self._pins[seq] = node
        node.slots.add(seq)
        node.count_source(1)
        # Last: as long as it held nothing the new node could have gone with the old one.
        if before is not None:
            self._let_go(seq, before)

    def unpin(self, seq: SeqId) -> None:
        """A slot's memory holds nothing that others could use."""
        if (node := self._pins.pop(seq, None)) is not None:
            self._let_go(seq, node)

    def _let_go(self, seq: SeqId, node: Node) -> None:
        node.slots.discard(seq)
        node.count_source(-1)
        self.prune(node)
