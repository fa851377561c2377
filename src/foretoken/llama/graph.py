"""What is added to a model's graph so that the device itself chooses from its logits.

A sampler of the library's kind is called for every row while a graph is built. The rows are views of one tensor, which
is looked through at once.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import llama_cpp

_FLOAT = _INT = 4
_DESCENDING = 1
_lib = llama_cpp.llama_cpp._lib
_TENSOR, _LENGTH, _SIZE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
Tensor = int


def _operation(name: str, *types: type) -> Callable[..., Tensor]:
    function = getattr(_lib, f"ggml_{name}")
    function.argtypes, function.restype = [_TENSOR, _TENSOR, *types], _TENSOR
    operation: Callable[..., Tensor] = function
    return operation


_argmax = _operation("argmax")
_argsort = _operation("argsort", ctypes.c_int)
_get_rows = _operation("get_rows", _TENSOR)
_reshape_2d = _operation("reshape_2d", _LENGTH, _LENGTH)
_reshape_3d = _operation("reshape_3d", _LENGTH, _LENGTH, _LENGTH)
_view_1d = _operation("view_1d", _LENGTH, _SIZE)
_view_2d = _operation("view_2d", _LENGTH, _LENGTH, _SIZE, _SIZE)


class _TensorHead(ctypes.Structure):
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


class BestToken:
    """Of every row the place of its largest logit.

    The library's own greedy sampler does that too, row by row, and brings all logits to the host as well.
    """

    def __init__(self) -> None:
        self._found: dict[Tensor, Any] = {}
        """What was found in the graph that is being built, by the tensor of all its logits."""
        self.interface = llama_cpp.llama_sampler_i()
        types = dict(llama_cpp.llama_sampler_i._fields_)
        functions: dict[str, Callable[..., object]] = {
            "name": lambda sampler: b"foretoken",
            "apply": lambda sampler, candidates: None,
            "backend_init": lambda sampler, buffers, n_outputs: True,
            "backend_apply": self._add_row,
            "backend_reset": lambda sampler: self._found.clear(),
        }
        for name, function in functions.items():
            setattr(self.interface, name, types[name](function))

    def _add_row(
        self, _sampler: object, graph: int, _forward: int, data: ctypes._Pointer[llama_cpp.llama_sampler_data]
    ) -> None:
        row = data.contents
        head = _TensorHead.from_address(row.logits)
        if head.view_src is None:
            # The library counts operations, in a graph and with a vocabulary of its own.
            found = self._find(graph, row.logits)
        else:
            if head.view_src not in self._found:
                self._found[head.view_src] = self._find(graph, head.view_src)
            found = self._found[head.view_src]
        row.logits = None
        self._tell(graph, row, found, head.view_offs // (head.ne[0] * _FLOAT))

    def _find(self, graph: int, logits: Tensor) -> Any:
        return _argmax(graph, logits)

    def _tell(self, graph: int, row: llama_cpp.llama_sampler_data, found: Any, number: int) -> None:
        row.sampled = _view_1d(graph, found, 1, number * _INT)


class BestPieces(BestToken):
    """Of every row cut into pieces, those with the largest logits, and which they are.

    The k best tokens lie in the k pieces whose best are best; only those are brought to the host. The library's own
    samplers keep the k tokens themselves, for which some devices sort the whole row.
    """

    def __init__(self, n_kept: int, size: int) -> None:
        super().__init__()
        self._n_kept, self._size = n_kept, size

    def _find(self, graph: int, logits: Tensor) -> tuple[Tensor, Tensor, int]:
        n_vocab, n_rows = _TensorHead.from_address(logits).ne[:2]
        n_pieces = n_vocab // self._size
        n_all = n_pieces * n_rows
        places = _argmax(graph, _reshape_2d(graph, logits, self._size, n_all))
        tops = _get_rows(graph, _reshape_3d(graph, logits, 1, self._size, n_all), _reshape_2d(graph, places, 1, n_all))
        order = _argsort(graph, _reshape_2d(graph, tops, n_pieces, n_rows), _DESCENDING)
        best = _view_2d(graph, order, self._n_kept, n_rows, n_pieces * _INT, 0)
        kept = _get_rows(graph, _reshape_3d(graph, logits, self._size, n_pieces, n_rows), best)
        return order, kept, n_pieces

    def _tell(self, graph: int, row: llama_cpp.llama_sampler_data, found: Any, number: int) -> None:
        order, kept, n_pieces = found
        n = self._n_kept * self._size
        row.logits = _view_1d(graph, kept, n, number * n * _FLOAT)
        row.candidates = _view_1d(graph, order, self._n_kept, number * n_pieces * _INT)
