"""Quantised blocks by the megabyte: normal random weights, quantised once and cut from over and over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

_STOCK = 1 << 14
"""Blocks of a kind that are quantised; all others are copies."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Block:
    """How many weights a block of a type holds in how many bytes; `gguf` is the type's number, None for floats."""

    n_weights: int
    n_bytes: int
    gguf: int | None


BLOCKS = {
    "q4_k": Block(256, 144, 12),
    "q6_k": Block(256, 210, 14),
    "f32": Block(1, 4, None),
    "f32-random": Block(1, 4, None),
}


class Blocks:
    """A stock of blocks of every kind, scaled so that a matrix keeps the size of what it is applied to."""

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        weights = random.standard_normal((_STOCK, 256), np.float32)
        self._packers: dict[str, Callable[[NDArray[np.float32]], Bytes]] = {
            "q4_k": _q4_k,
            "q6_k": _q6_k,
            "f32-random": lambda scaled: scaled.view(np.uint8),
        }
        self._weights = weights
        self._stocks: dict[tuple[str, int], memoryview] = {}

    def some(self, kind: str, n_in: int, n_bytes: int) -> memoryview:
        """So many bytes of blocks, from some place of the stock for rows of `n_in` weights."""
        stock = self._stocks.get((kind, n_in))
        if stock is None:
            packed = self._packers[kind](self._weights / np.float32(sqrt(n_in)))
            stock = self._stocks[kind, n_in] = memoryview(np.ascontiguousarray(packed).tobytes())
        size = BLOCKS[kind].n_bytes
        start = int(self._random.integers(_STOCK // 2)) * size * (256 // BLOCKS[kind].n_weights)
        return stock[start : min(len(stock), start + n_bytes)]


def _q4_k(weights: NDArray[np.float32]) -> Bytes:
    """Eight groups of 32 weights, each with a scale and a minimum of six bits; llama.cpp's layout."""
    n = len(weights)
    groups = weights.reshape(n, 8, 32)
    low = np.minimum(groups.min(axis=2), 0.0)
    step = (groups.max(axis=2) - low) / 15
    d, d_min = step.max(axis=1, keepdims=True) / 63, -low.min(axis=1, keepdims=True) / 63
    scale, minimum = (np.rint(part).astype(np.uint8) for part in (step / d, -low / d_min))
    real = (scale * d)[:, :, None]
    q = np.clip(np.rint((groups + (minimum * d_min)[:, :, None]) / np.maximum(real, 1e-12)), 0, 15).astype(np.uint8)
    blocks = np.empty((n, 144), np.uint8)
    blocks[:, 0:2] = d.astype(np.float16).view(np.uint8)
    blocks[:, 2:4] = d_min.astype(np.float16).view(np.uint8)
    blocks[:, 4:8] = scale[:, :4] | (scale[:, 4:] >> 4) << 6
    blocks[:, 8:12] = minimum[:, :4] | (minimum[:, 4:] >> 4) << 6
    blocks[:, 12:16] = (scale[:, 4:] & 15) | (minimum[:, 4:] & 15) << 4
    pairs = q.reshape(n, 4, 2, 32)
    blocks[:, 16:] = (pairs[:, :, 0] | pairs[:, :, 1] << 4).reshape(n, 128)
    return blocks


def _q6_k(weights: NDArray[np.float32]) -> Bytes:
    """Sixteen groups of 16 weights, each with a signed scale of eight bits; llama.cpp's layout."""
    n = len(weights)
    groups = weights.reshape(n, 16, 16)
    step = np.abs(groups).max(axis=2) / 31
    d = step.max(axis=1, keepdims=True) / 127
    scale = np.rint(step / d).astype(np.int8)
    real = (scale * d)[:, :, None]
    q = (np.clip(np.rint(groups / np.maximum(real, 1e-12)), -32, 31) + 32).astype(np.uint8).reshape(n, 2, 4, 32)
    blocks = np.empty((n, 210), np.uint8)
    low, high = q & 15, q >> 4
    first, second = low[:, :, 0] | low[:, :, 2] << 4, low[:, :, 1] | low[:, :, 3] << 4
    blocks[:, :128] = np.stack((first, second), axis=2).reshape(n, 128)
    blocks[:, 128:192] = (high[:, :, 0] | high[:, :, 1] << 2 | high[:, :, 2] << 4 | high[:, :, 3] << 6).reshape(n, 64)
    blocks[:, 192:208] = scale.view(np.uint8)
    blocks[:, 208:210] = d.astype(np.float16).view(np.uint8)
    return blocks
