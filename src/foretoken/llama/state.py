"""Reading which positions a saved sequence state holds (the format of the pinned libllama)."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

_HEADER = 8
"""Magic and sequence number, before the memory's own bytes."""
_EXTENSION = 12
"""Two spatial positions and a token, between a cell's header and its sequence numbers."""


def positions(data: NDArray[np.uint8], extended: bool) -> list[int]:
    """The position of every attention cell in a full sequence state; M-RoPE models extend each cell."""
    raw = memoryview(data.tobytes())
    (n_streams,) = struct.unpack_from("<I", raw, _HEADER)
    offset = _HEADER + 4
    for _ in range(n_streams):
        (n_cells,) = struct.unpack_from("<I", raw, offset)
        offset += 4
        if n_cells:
            # A sequence lives in one stream: the others are empty, and what follows is cell data.
            return _cells(raw, offset, n_cells, _EXTENSION if extended else 0)
    return []


def _cells(raw: memoryview, offset: int, n_cells: int, extension: int) -> list[int]:
    found = []
    for _ in range(n_cells):
        position, n_sequences = struct.unpack_from("<iI", raw, offset)
        offset += 8 + extension + 4 * n_sequences
        found.append(position)
    return found
