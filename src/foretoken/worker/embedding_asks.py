"""Embeddings asked of a worker: who waits for which, on the server's side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import uuid4

from foretoken.errors import EngineStopped, QueueFull
from foretoken.types import Token
from foretoken.worker.messages import Cancel, Embed, Embedded, Order


@dataclass(eq=False, slots=True)
class _Ask:
    vectors: list[bytes]
    n_missing: int
    done: asyncio.Future[None]


class EmbeddingAsks:
    """Collects the vectors of every ask until it is complete."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._asks: dict[str, _Ask] = {}

    def __len__(self) -> int:
        return len(self._asks)

    async def ask(self, texts: Sequence[Sequence[Token]], send: Callable[[Order], None]) -> list[bytes]:
        """The vectors of some texts, each as the bytes of its floats; leaving early cancels what is left."""
        if len(self._asks) >= self._most:
            raise QueueFull(f"{len(self._asks)} requests are waiting already; try again later")
        name = uuid4().hex[:12]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ask = self._asks[name] = _Ask([b""] * len(texts), len(texts), future)
        send(Embed(name, tuple(tuple(tokens) for tokens in texts)))
        try:
            await ask.done
        except asyncio.CancelledError:
            send(Cancel(name))
            raise
        finally:
            del self._asks[name]
        return ask.vectors

    def take(self, report: Embedded) -> None:
        ask = self._asks.get(report.id)
        if ask is None or ask.done.done():
            return
        ask.vectors[report.first : report.first + len(report.vectors)] = report.vectors
        ask.n_missing -= len(report.vectors)
        if ask.n_missing == 0:
            ask.done.set_result(None)

    def lose(self, message: str) -> None:
        """The worker is gone: nobody gets anything any more."""
        for ask in self._asks.values():
            if not ask.done.done():
                ask.done.set_exception(EngineStopped(message))
