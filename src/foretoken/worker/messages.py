"""What the server and the worker process say to each other: structs, packed and framed by their length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import astuple

from foretoken.config import EngineConfig, Pooling
from foretoken.ids import ids_of
from foretoken.types import Chunk, Finish, Request, Token

_HEADER = 4

SlotAction = Literal["save", "restore", "erase"]

PULSE = 1.0
"""Seconds between two signs of life of a worker."""


class EmbeddingProperties(msgspec.Struct, frozen=True):
    """What embeddings a worker makes."""

    pooling: Pooling
    n_out: int
    """Numbers of one vector."""
    n_max: int
    """Tokens of the longest text."""


class Properties(msgspec.Struct, frozen=True):
    """What the server wants to know of a loaded engine."""

    model_path: str
    model_name: str
    description: str
    architecture: str
    library: str
    n_slots: int
    n_ctx: int
    n_ctx_train: int
    n_vocab: int
    n_parameters: int
    n_bytes: int
    quantisation: str
    vocabulary_type: int
    drafters: tuple[str, ...]
    metadata: dict[str, str]
    recurrent: bool = False
    """Whether a part of the memory is a state that cannot be cut."""
    chat_template: str | None = None
    generates: bool = True
    """Whether it can continue a text at all."""
    embedding: EmbeddingProperties | None = None


class SlotState(msgspec.Struct, frozen=True):
    """One slot as it is between two steps."""

    id: int
    n_ctx: int
    n_tokens: int
    n_cached: int
    request: str | None = None
    choice: int = 0
    n_prompt: int = 0
    n_emitted: int = 0
    n_wanted: int | None = None
    prefilling: bool = False
    n_reused: int = 0
    """Tokens of the prompt that were there before it was read."""
    n_kept_bytes: int = 0
    """Kept on the host of the text that this slot holds."""


class DrafterState(msgspec.Struct, frozen=True):
    """What one drafter did since the worker started."""

    offered: int
    verified: int
    accepted: int
    missed: int
    failures: int
    ms: float
    saved_ms: float
    lost_ms: float
    verified_at: tuple[int, ...]
    accepted_at: tuple[int, ...]


class LiveState(msgspec.Struct, frozen=True):
    """The engine at one moment; what is counted is counted since the worker started."""

    uptime: float
    """Seconds since the worker was ready."""
    slots: tuple[SlotState, ...]
    n_decodes: int
    totals: dict[str, int | float]
    drafters: dict[str, DrafterState]
    curve: dict[int, float]
    """Milliseconds that a step is expected to take, by width."""
    widths: dict[int, tuple[int, float]]
    """Steps by width, and the milliseconds they took together."""
    cache: dict[str, float] = {}
    """The state tree's counters, where there is one."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """The first order: load this."""

    config: EngineConfig
    log_level: int = 20
    patience: float = 60.0
    """Seconds beyond what a step should take after which the engine is taken for hung."""
    widths_ms: dict[int, float] = {}
    """What an earlier engine with these settings found out about its steps."""


class Asked(Request, frozen=True):
    """A request without its prompt."""

    prompt: tuple[()] = ()


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Answer this request: text never reaches the worker, and tokens are sent as the bytes they are in memory."""

    asked: Asked
    prompt: bytes
    waited: float = 0.0
    """Seconds since it was asked."""

    @classmethod
    def of(cls, request: Request, waited: float = 0.0) -> Submit:
        """The order for a request."""
        if isinstance(request.prompt, str | bytes):
            raise TypeError("tokenise the prompt before it goes to the worker")
        return cls(Asked((), *astuple(request)[1:]), ids_of(request.prompt).tobytes(), waited)

    @property
    def request(self) -> Request:
        """The request as it was."""
        return Request(np.frombuffer(self.prompt, np.int32).tolist(), *astuple(self.asked)[1:])


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for this request any more."""

    id: str


class Embed(msgspec.Struct, frozen=True, tag=True):
    """Turn these texts into vectors."""

    id: str
    texts: tuple[tuple[Token, ...], ...]


class AskSlots(msgspec.Struct, frozen=True, tag=True):
    """Say what every slot is doing."""

    number: int


class AskLive(msgspec.Struct, frozen=True, tag=True):
    """Say what everything is doing."""

    number: int


class SlotOrder(msgspec.Struct, frozen=True, tag=True):
    """Save what a slot holds to a file, load it from one, or forget it."""

    number: int
    slot: int
    action: SlotAction
    owner: str
    path: Path | None = None


class Stop(msgspec.Struct, frozen=True, tag=True):
    """End now."""


Order = Start | Submit | Embed | Cancel | AskSlots | AskLive | SlotOrder | Stop


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The model is loaded; requests may come."""

    properties: Properties
    widths_ms: dict[int, float] = {}
    """What a step costs by its rows, for the next engine; nothing when that was not measured."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The engine cannot start, and this is why."""

    message: str


class Said(msgspec.Struct, frozen=True, tag=True):
    """Text of a request's answer."""

    id: str
    chunk: Chunk


class Ended(msgspec.Struct, frozen=True, tag=True):
    """One choice of a request is over."""

    id: str
    finish: Finish


class Invalid(msgspec.Struct, frozen=True, tag=True):
    """The request can never be served as it is."""

    id: str
    message: str


class Embedded(msgspec.Struct, frozen=True, tag=True):
    """Vectors of neighbouring texts, as the bytes of their floats."""

    id: str
    first: int
    vectors: tuple[bytes, ...]


class Slots(msgspec.Struct, frozen=True, tag=True):
    """The answer to `AskSlots`."""

    number: int
    slots: tuple[SlotState, ...]
    n_decodes: int
    """Batches computed since this worker started."""
    n_busy: int
    """Slots that these batches served, all added up."""
    cache: dict[str, float] = {}
    """The state tree's counters."""


class SlotDone(msgspec.Struct, frozen=True, tag=True):
    """The answer to `SlotOrder`; an error says why nothing was done, and whether it may work later."""

    number: int
    n_tokens: int = 0
    n_bytes: int = 0
    ms: float = 0.0
    error: str | None = None
    busy: bool = False


class Live(msgspec.Struct, frozen=True, tag=True):
    """The answer to `AskLive`."""

    number: int
    state: LiveState


class Logged(msgspec.Struct, frozen=True, tag=True):
    """A line of the worker's log."""

    level: int
    logger: str
    text: str


class Pulse(msgspec.Struct, frozen=True, tag=True):
    """The process is alive, and its engine idle or at a step that takes no longer than it may."""


class Died(msgspec.Struct, frozen=True, tag=True):
    """The engine's thread is gone; the process ends after this."""

    message: str


Report = Ready | Refused | Said | Ended | Invalid | Embedded | Slots | SlotDone | Live | Logged | Pulse | Died


def _encode_other(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def _decode_other(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return kind(value)
    raise NotImplementedError(f"{kind.__name__} cannot be received")


_encoder = msgspec.msgpack.Encoder(enc_hook=_encode_other)
_orders: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order, dec_hook=_decode_other)
_reports: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report, dec_hook=_decode_other)


def pack(message: Order | Report) -> bytes:
    """A message as it goes over the pipe: its length, then itself."""
    body = _encoder.encode(message)
    return len(body).to_bytes(_HEADER, "big") + body


def read_order(frame: bytes) -> Order:
    return _orders.decode(frame)


def read_report(frame: bytes) -> Report:
    return _reports.decode(frame)


class Frames:
    """Cuts a stream of bytes back into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages completed by this piece of the stream."""
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= _HEADER:
            end = at + _HEADER + int.from_bytes(self._buffer[at : at + _HEADER], "big")
            if end > len(self._buffer):
                break
            yield bytes(self._buffer[at + _HEADER : end])
            at = end
        del self._buffer[:at]
