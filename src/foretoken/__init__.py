"""Speculative decoding that is safe, free and always on, for every GGUF model."""

from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.types import (
    Chunk,
    Constraint,
    Event,
    Finish,
    Request,
    SamplingParams,
    SpeculationParams,
    TokenInfo,
    Usage,
)

__all__ = [
    "Chunk",
    "Constraint",
    "Engine",
    "Event",
    "Finish",
    "ForetokenError",
    "Request",
    "SamplingParams",
    "SpeculationParams",
    "TokenInfo",
    "Usage",
]
