"""Speculative decoding that is safe, free and always on, for every GGUF model."""

from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.types import Chunk, Event, Finish, Request, SamplingParams, SpeculationParams, TokenInfo, Usage

__all__ = [
    "Chunk",
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
