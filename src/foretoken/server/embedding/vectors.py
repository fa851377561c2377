"""Vectors as clients want them: of one length, and as numbers or as bytes."""

from __future__ import annotations

import base64
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
_INT16 = 32760.0


def rows_of(data: bytes, width: int) -> Rows:
    """What the worker sent, a row for each vector."""
    return np.frombuffer(data, np.float32).reshape(-1, width)


def normalised(rows: Rows, kind: int) -> Rows:
    """Every row at length one; `kind` is llama.cpp's: -1 as it is, 0 by the largest, 1 taxicab, 2 euclidean, p-norm."""
    if kind < 0:
        return rows
    wide = np.abs(rows, dtype=np.float64)
    length = wide.max(axis=1) / _INT16 if kind == 0 else np.sum(wide**kind, axis=1) ** (1 / kind)
    return np.where(length > 0, rows.T / np.where(length > 0, length, 1.0), 0.0).T.astype(np.float32)


def written(row: Rows, form: Literal["float", "base64"]) -> Any:
    """One vector in JSON."""
    return base64.b64encode(row.astype("<f4").tobytes()).decode() if form == "base64" else row.tolist()
