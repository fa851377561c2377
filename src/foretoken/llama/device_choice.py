"""The best token of every row, found by the device that computed the row.

A row of a large vocabulary is a megabyte. Bringing 64 of them to the host and looking through them takes a sixth of a
small model's step on a GPU; their best tokens are 256 bytes. The library lets a sampler add to the graph; its own
greedy one copies all logits as well, so this one does not keep them.
"""

from __future__ import annotations

import ctypes
from collections import Counter, defaultdict
from collections.abc import Callable

import llama_cpp

from foretoken.types import SeqId

_PATIENCE = 8192
"""Rows of drafts that a sequence brings to the host for their best tokens alone before the device is to choose: by then
that has taken as long as a change does."""
_FEW = 8
"""Rows of a batch that are looked through on the host as fast."""
_FLOAT = _INT = 4
_graph = llama_cpp.llama_cpp._lib
_argmax, _view = _graph.ggml_argmax, _graph.ggml_view_1d
_argmax.argtypes, _argmax.restype = [ctypes.c_void_p] * 2, ctypes.c_void_p
_view.argtypes, _view.restype = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t], ctypes.c_void_p


class _Tensor(ctypes.Structure):
    """The beginning of `struct ggml_tensor`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("buffer", ctypes.c_void_p),
        ("ne", ctypes.c_int64 * 4),
        ("nb", ctypes.c_size_t * 4),
        ("op", ctypes.c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", ctypes.c_void_p * 10),
        ("view_src", ctypes.c_void_p),
        ("view_offs", ctypes.c_size_t),
    )


class DeviceChoice:
    """Says for which sequences of a context the device chooses.

    A change plans the whole graph anew and, once, moves the rows' place on the host: a fifth of a second. So a sequence
    changes when it has lost as much by not having changed before, and then twice as much each time that proved wrong.
    """

    def __init__(self, context: object) -> None:
        self._context = context
        self._chains: dict[SeqId, object] = {}
        self._possible = True
        self._best_only: set[SeqId] = set()
        self._n_brought: Counter[SeqId] = Counter()
        self._patience: dict[SeqId, int] = defaultdict(lambda: _PATIENCE)
        self._best: dict[int, int] = {}
        """The best tokens of all rows in the graph that is being built, by the tensor of their logits."""
        self._interface = self._sampler_interface()

    def __contains__(self, seq: SeqId) -> bool:
        return seq in self._chains

    def expect(self, seq: SeqId, best_only: bool) -> None:
        """A request begins of whose rows the best tokens will be asked for, or more."""
        if best_only:
            self._best_only.add(seq)
            if self._possible and seq not in self and self._n_brought[seq] >= self._patience[seq]:
                self.attach(seq)
        else:
            self._best_only.discard(seq)
            self._n_brought[seq] = 0
            if seq in self:
                self._patience[seq] *= 2
                self.detach(seq)

    def brought(self, seq: SeqId, n_rows: int) -> None:
        """So many rows of a sequence are on their way to the host."""
        if n_rows >= _FEW and seq in self._best_only:
            self._n_brought[seq] += n_rows

    def attach(self, seq: SeqId) -> None:
        chain = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        link = llama_cpp.llama_sampler_init(ctypes.pointer(self._interface), None)
        llama_cpp.llama_sampler_chain_add(chain, link)
        if llama_cpp.llama_set_sampler(self._context, seq, chain):
            self._chains[seq] = chain
        else:
            # Some ways to spread a model over devices do not allow it.
            llama_cpp.llama_sampler_free(chain)
            self._possible = False

    def detach(self, seq: SeqId) -> None:
        llama_cpp.llama_set_sampler(self._context, seq, None)
        llama_cpp.llama_sampler_free(self._chains.pop(seq))

    def close(self) -> None:
        """Only once the context is gone."""
        while self._chains:
            llama_cpp.llama_sampler_free(self._chains.popitem()[1])

    def _sampler_interface(self) -> llama_cpp.llama_sampler_i:
        interface = llama_cpp.llama_sampler_i()
        types = dict(llama_cpp.llama_sampler_i._fields_)
        functions: dict[str, Callable[..., object]] = {
            "name": lambda sampler: b"best",
            "apply": lambda sampler, candidates: None,
            "backend_init": lambda sampler, buffers, n_outputs: True,
            "backend_apply": self._add_to_graph,
            "backend_reset": lambda sampler: self._best.clear(),
        }
        for name, function in functions.items():
            setattr(interface, name, types[name](function))
        return interface

    def _add_to_graph(
        self, _sampler: object, graph: int, _forward: int, data: ctypes._Pointer[llama_cpp.llama_sampler_data]
    ) -> None:
        """Called for every row while a graph is built; the rows are views of one tensor, looked through at once."""
        row = data.contents
        logits = _Tensor.from_address(row.logits)
        if logits.view_src is None:
            row.sampled = _argmax(graph, row.logits)
        else:
            if logits.view_src not in self._best:
                self._best[logits.view_src] = _argmax(graph, logits.view_src)
            number = logits.view_offs // (logits.ne[0] * _FLOAT)
            row.sampled = _view(graph, self._best[logits.view_src], 1, number * _INT)
        row.logits = None
