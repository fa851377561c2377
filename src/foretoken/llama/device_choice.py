"""For which sequences the device chooses from the rows it computed, and how much of them comes to the host.

A row of a large vocabulary is a megabyte. Bringing 64 of them to the host and looking through them takes a sixth of a
small model's step on a GPU; their best tokens are 256 bytes, the pieces with the forty best of each a twentieth.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import llama_cpp

from foretoken.backend import Span
from foretoken.llama.contenders import in_one_block, piece_size, worth_it
from foretoken.llama.graph import BestPieces, BestToken
from foretoken.types import SeqId

_PATIENCE = 200.0
"""Milliseconds that are lost to choices made elsewhere than where they should be before that is changed: as many as a
change takes."""
_SAMPLED_MS, _GREEDY_MS = 0.12, 0.025
"""What it costs to bring a row to the host and to look for the few best tokens, or the best one (0.8B, H200)."""
_FEW = 8
"""Rows of a batch in which the host finds the best tokens as fast."""
_SPARE = 8
"""Pieces kept beyond those that must hold the best tokens: for tokens as good as the last of these."""


class DeviceChoice:
    """Says for which sequences of a context the device chooses.

    A change plans the whole graph anew and, once, moves the rows' place on the host: a fifth of a second. So it comes
    when as much was lost without it, for all sequences at once, and after twice as much each time it was regretted.
    """

    def __init__(self, context: object, n_vocab: int) -> None:
        self._context = context
        self._n_vocab = n_vocab
        self._chains: dict[SeqId, object] = {}
        self._kept: dict[SeqId, int] = {}
        self._links: dict[int, BestToken] = {0: BestToken()}
        """By how many pieces of a row they keep."""
        self._needed: dict[SeqId, int | None] = {}
        self._possible = True
        self._lost_ms = 0.0
        self._patience_ms = _PATIENCE
        self._regretted = False

    def __contains__(self, seq: SeqId) -> bool:
        return seq in self._chains

    def kept(self, seq: SeqId) -> int:
        """How many pieces of a row come to the host; 0 is the best token alone."""
        return self._kept[seq]

    def expect(self, seq: SeqId, n_best: int | None) -> None:
        """A request begins of whose rows so many best tokens will be asked for; None: everything may be."""
        needed = self._needed[seq] = self._pieces(n_best)
        if seq in self and (needed is None or self._kept[seq] < needed):
            self.detach(seq)
        if self._possible and self._lost_ms >= self._patience_ms:
            self._change()

    def decoded(self, spans: Sequence[Span]) -> dict[int, int]:
        """A batch is under way; says of which rows the device chooses, and how many pieces of each are kept."""
        if not (self._needed or self._chains):
            return {}
        for span in spans:
            self._brought(span.seq, span.n_outputs)
        return {row: self._kept[span.seq] for span in spans if span.seq in self for row in span.outputs}

    def _brought(self, seq: SeqId, n_rows: int) -> None:
        """So many rows of a sequence are on their way to the host."""
        needed = self._needed.get(seq)
        if needed is None or self._right(seq, needed):
            return
        if needed:
            # Several blocks of a GPU sort the pieces of a lone row no sooner than the host finds its best tokens.
            if n_rows > 1 or in_one_block(self._n_vocab):
                self._lost_ms += n_rows * _SAMPLED_MS
        elif seq in self or n_rows >= _FEW:
            self._lost_ms += n_rows * _GREEDY_MS

    def _change(self) -> None:
        """Let every sequence have what it needs."""
        for seq, needed in self._needed.items():
            if needed is not None and not self._right(seq, needed):
                if seq in self:
                    self.detach(seq)
                self.attach(seq, needed)
        self._lost_ms, self._regretted = 0.0, False

    def attach(self, seq: SeqId, n_kept: int = 0) -> None:
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        link = llama_cpp.llama_sampler_init(ctypes.pointer(self._link(n_kept).interface), None)
        llama_cpp.llama_sampler_chain_add(chain, link)
        if llama_cpp.llama_set_sampler(self._context, seq, chain):
            self._chains[seq] = chain
            self._kept[seq] = n_kept
        else:
            # Some ways to spread a model over devices do not allow it.
            llama_cpp.llama_sampler_free(chain)
            self._possible = False

    def detach(self, seq: SeqId) -> None:
        if not self._regretted:
            self._patience_ms *= 2
            self._regretted = True
        llama_cpp.llama_set_sampler(self._context, seq, None)
        llama_cpp.llama_sampler_free(self._chains.pop(seq))

    def close(self) -> None:
        """Only once the context is gone."""
        while self._chains:
            llama_cpp.llama_sampler_free(self._chains.popitem()[1])

    def _right(self, seq: SeqId, needed: int) -> bool:
        """Whether a sequence keeps what it needs, and not much more."""
        return seq in self and bool(self._kept[seq]) == bool(needed)

    def _pieces(self, n_best: int | None) -> int | None:
        """How many of a row must be kept for that; None: all of it."""
        if n_best == 1:
            return 0
        if n_best is None or piece_size(self._n_vocab) is None or not worth_it(self._n_vocab, n_best):
            return None
        return n_best + _SPARE

    def _link(self, n_kept: int) -> BestToken:
        if n_kept not in self._links:
            size = piece_size(self._n_vocab)
            assert size is not None
            self._links[n_kept] = BestPieces(n_kept, size)
        return self._links[n_kept]
