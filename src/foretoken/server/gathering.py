"""What one turn of the event loop writes to a connection leaves it as one packet."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class GatheringTransport:
    """A transport that keeps what is written until the turn is over.

    An answer's head and its first token, or its last token and its end, would otherwise be a system call, a
    packet and a wake-up of the client each.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._pieces:
            self._loop.call_soon(self._flush)
        self._pieces.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class GatheringProtocol(HttpToolsProtocol):
    """uvicorn's HTTP over such a transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast(asyncio.Transport, GatheringTransport(transport)))
