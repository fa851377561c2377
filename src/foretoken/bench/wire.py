"""The thinnest HTTP client there is: what it costs itself must not hide what a server costs."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from foretoken.errors import ForetokenError

_PATH = "/v1/completions"
_EVENT = b"data: "
_END = b"data: [DONE]\n\n"
_N_TOKENS = re.compile(rb'"completion_tokens": ?(\d+)')
_READ = 1 << 16
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Address:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname:
            raise ForetokenError(f"{url}: give an address such as http://127.0.0.1:8080")
        return cls(parts.hostname, parts.port or 80)


@dataclass(frozen=True, slots=True)
class Heard:
    """One streamed answer: seconds from asking to its first event and to its end."""

    first: float
    end: float
    n_tokens: int

    @property
    def per_token(self) -> float:
        return (self.end - self.first) / max(1, self.n_tokens - 1)


def body(prompt: str, n_tokens: int, **fields: Any) -> bytes:
    """A greedy answer of exactly so many tokens, streamed."""
    asked = {
        "model": "any", "prompt": prompt, "max_tokens": n_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
        "cache_prompt": False, "stream_options": {"include_usage": True}, **fields,
    }  # fmt: skip
    return json.dumps(asked).encode()


def _head(address: Address, size: int, connection: str) -> bytes:
    return (
        f"POST {_PATH} HTTP/1.1\r\nhost: {address.host}:{address.port}\r\nconnection: {connection}\r\n"
        f"content-type: application/json\r\ncontent-length: {size}\r\n\r\n"
    ).encode()


def _heard(started: float, first: float | None, data: bytes) -> Heard:
    found = _N_TOKENS.findall(data)
    if first is None or not found or _END not in data:
        raise ForetokenError(f"not a complete answer: {data[-300:].decode('utf-8', 'replace')!r}")
    return Heard(first, time.perf_counter() - started, int(found[-1]))


class Connection:
    """One client that asks again and again on a connection it keeps."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._socket = socket.create_connection((address.host, address.port), timeout=_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, asked: bytes) -> Heard:
        request = _head(self._address, len(asked), "keep-alive") + asked
        data = bytearray()
        first = None
        started = time.perf_counter()
        self._socket.sendall(request)
        while _END not in data[-64:]:
            piece = self._socket.recv(_READ)
            if first is None and _EVENT in piece:
                first = time.perf_counter() - started
            data += piece
            if not piece or not data.startswith(b"HTTP/1.1 200"):
                break
        heard = _heard(started, first, bytes(data))
        while not data.endswith(b"\r\n0\r\n\r\n"):
            data += self._socket.recv(_READ)
        return heard

    def close(self) -> None:
        self._socket.close()


async def ask_once(address: Address, asked: bytes) -> Heard:
    """Ask on a connection of its own, as one of many clients."""
    started = time.perf_counter()
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        writer.write(_head(address, len(asked), "close") + asked)
        pieces: list[bytes] = []
        first = None
        while piece := await reader.read(_READ):
            if first is None and _EVENT in piece:
                first = time.perf_counter() - started
            pieces.append(piece)
        return _heard(started, first, b"".join(pieces))
    finally:
        writer.close()


async def crowd(address: Address, n_clients: int, asked: Sequence[bytes]) -> list[Heard]:
    """So many clients share the questions out: each asks its next one when its last is answered."""
    left = iter(asked)
    heard: list[Heard] = []

    async def client() -> None:
        for one in left:
            heard.append(await ask_once(address, one))

    async with asyncio.timeout(_SECONDS):
        await asyncio.gather(*(client() for _ in range(n_clients)))
    return heard
