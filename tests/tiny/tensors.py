"""What one tensor of a tiny model is called, how large it is, and what it is filled with."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float32]
Shape = tuple[int, ...]
Fill = Callable[[Generator, Shape], Array]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor to be written, its shape as numpy has it: the contiguous dimension last."""

    name: str
    shape: Shape
    fill: Fill
    quantised: bool


def matrix(name: str, n_out: int, n_in: int, gain: float = 1.0) -> Tensor:
    """Describes a projection that keeps a unit input at `gain`."""
    return stacked(name, n_in, (n_out, gain))


def normal(random: Generator, shape: Shape) -> Array:
    """Draws a tensor of unit spread."""
    return random.standard_normal(shape, dtype=np.float32)


def stacked(name: str, n_in: int, *parts: tuple[int, float]) -> Tensor:
    """Describes several projections (rows, gain) held in one matrix."""
    gains: Array = np.concatenate([np.full((rows, 1), gain / n_in**0.5, np.float32) for rows, gain in parts])

    def fill(random: Generator, shape: Shape) -> Array:
        return np.multiply(normal(random, shape), gains, dtype=np.float32)

    return Tensor(name, (len(gains), n_in), fill, quantised=True)


def experts(name: str, n_experts: int, n_out: int, n_in: int, gain: float = 1.0) -> Tensor:
    """Describes the same projection for every expert."""

    def fill(random: Generator, shape: Shape) -> Array:
        return normal(random, shape) * np.float32(gain / n_in**0.5)

    return Tensor(name, (n_experts, n_out, n_in), fill, quantised=True)


def exact(name: str, shape: Shape, mean: float, spread: float) -> Tensor:
    """Describes a normally distributed tensor that stays F32."""

    def fill(random: Generator, shape: Shape) -> Array:
        return np.float32(mean) + np.float32(spread) * normal(random, shape)

    return Tensor(name, shape, fill, quantised=False)


def norm(name: str, *shape: int, weight: float = 1.0) -> Tensor:
    """Describes the weights of a norm, close to `weight`."""
    return exact(name, shape, weight, 0.1 * weight)


def convolution(name: str, channels: int, width: int, gain: float) -> Tensor:
    """Describes a depthwise convolution over the last `width` tokens."""
    return exact(name, (channels, width), 0.0, gain / width**0.5)


def step_bias(name: str, n: int, shortest: float, longest: float) -> Tensor:
    """Describes biases whose softplus, the step of a recurrent state, runs from shortest to longest."""

    def fill(random: Generator, shape: Shape) -> Array:
        steps = random.permutation(np.geomspace(shortest, longest, n, dtype=np.float64))
        bias: Array = np.log(np.expm1(steps)).astype(np.float32)
        return bias

    return Tensor(name, (n,), fill, quantised=False)


def decay_rate(name: str, *shape: int, slowest: float = 1.0, fastest: float = 1.0) -> Tensor:
    """Describes the negative rates at which states decay per unit of step."""

    def fill(random: Generator, shape: Shape) -> Array:
        rates = np.geomspace(slowest, fastest, shape[-1])
        return np.broadcast_to(-rates, shape).astype(np.float32)

    return Tensor(name, shape, fill, quantised=False)
