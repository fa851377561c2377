"""One tree over token prefixes: what is kept of every text that was read, and where it branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Part
from foretoken.ids import Ids, n_shared
from foretoken.types import SeqId, Token

Bytes = NDArray[np.uint8]


@dataclass(eq=False, slots=True)
class Entry:
    """One kept part of a sequence: on the host, on disk, or both."""

    node: Node
    part: Part
    n_bytes: int
    data: Bytes | None = None
    file: Path | None = None
    odds: float = 1.0
    """How likely it is to be wanted, against the end of a text, where most texts go on."""
    n_users: int = 0
    """Who needs the data where it is right now: it is not evicted meanwhile."""


@dataclass(eq=False, slots=True)
class Node:
    """A prefix of some text; its parts serve every text that begins with it."""

    position: int
    edge: Ids
    """The tokens between the parent and here."""
    parent: Node | None = None
    children: dict[Token, Node] = field(default_factory=dict)
    parts: dict[Part, Entry] = field(default_factory=dict)
    slots: set[SeqId] = field(default_factory=set)
    """Slots whose own memory holds this prefix: the part of the tree that lives on the device."""
    n_sources: int = 0
    """Where attention cells of this prefix can be had: cells and slots kept here or further down."""

    @property
    def path(self) -> Iterator[Node]:
        """This node and those above it, the root last."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent

    @property
    def tokens(self) -> Ids:
        """The whole prefix."""
        return np.concatenate([node.edge for node in reversed(list(self.path))])

    def below(self) -> Iterator[Node]:
        """This node and all that continue it."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()

    def sources(self) -> Iterator[Node]:
        """Of these, the ones that lead to attention cells."""
        waiting = [self] if self.n_sources else []
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [child for child in node.children.values() if child.n_sources]

    def count_source(self, by: int) -> None:
        for node in self.path:
            node.n_sources += by


@dataclass(frozen=True, slots=True)
class Match:
    """How a text runs through the tree."""

    nodes: tuple[Node, ...]
    """Nodes that are prefixes of the text, the longest first; the root is the last."""
    depth: int
    """Tokens of the text that the tree knows; the end may lie inside an edge."""
    tip: Node
    """The node at that depth or the first one below it."""


class Tree:
    """The prefixes of one owner's texts."""

    def __init__(self) -> None:
        self.root = Node(0, np.empty(0, np.int32))
        self.n_token_bytes = 0

    def match(self, text: Ids) -> Match:
        node, nodes = self.root, [self.root]
        while node.position < len(text) and (child := node.children.get(int(text[node.position]))):
            shared = n_shared(child.edge, text[node.position :])
            if shared < len(child.edge):
                return Match(tuple(reversed(nodes)), node.position + shared, child)
            node = child
            nodes.append(node)
        return Match(tuple(reversed(nodes)), node.position, node)

    def insert(self, text: Ids) -> Node:
        """The node of a prefix, made if there is none."""
        match = self.match(text)
        node = match.nodes[0]
        if match.tip is not node:
            node = self._split(match.tip, match.depth)
        if node.position < len(text):
            edge = text[node.position :].copy()
            self.n_token_bytes += edge.nbytes
            child = Node(len(text), edge, node)
            node.children[int(edge[0])] = child
            node = child
        return node

    def _split(self, child: Node, at: int) -> Node:
        """Put a node into the edge above a child."""
        parent = child.parent
        assert parent is not None
        cut = at - parent.position
        middle = Node(at, child.edge[:cut].copy(), parent, n_sources=child.n_sources)
        parent.children[int(middle.edge[0])] = middle
        child.edge = child.edge[cut:].copy()
        child.parent = middle
        middle.children[int(child.edge[0])] = child
        return middle

    def prune(self, node: Node) -> None:
        """Take nodes away that hold nothing and lead nowhere, from here upwards."""
        while node.parent is not None and not (node.parts or node.slots or node.children):
            parent = node.parent
            del parent.children[int(node.edge[0])]
            self.n_token_bytes -= node.edge.nbytes
            node.parent = None
            node = parent
        self._merge(node)

    def _merge(self, node: Node) -> None:
        """A node that holds nothing and does not branch is only a place in an edge."""
        if node.parent is None or node.parts or node.slots or len(node.children) != 1:
            return
        (child,) = node.children.values()
        child.edge = np.concatenate([node.edge, child.edge])
        child.parent = node.parent
        node.parent.children[int(child.edge[0])] = child
        node.parent = None

    @property
    def empty(self) -> bool:
        return not self.root.children
