"""The orders a worker gets, read from a pipe by whichever thread takes them in."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from foretoken.worker import messages
from foretoken.worker.messages import Frames, Order, Stop

_READ_SIZE = 1 << 20


class Orders:
    """Reads what has come and has it obeyed; an engine's thread can listen to it."""

    def __init__(self, pipe: int) -> None:
        self.obey: Callable[[list[Order]], None] = lambda orders: None
        self.over = threading.Event()
        """Set when the worker is to stop, or when nobody is left who could give an order."""
        self._pipe = pipe
        self._frames = Frames()

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> list[Order]:
        """What has come whole; waits if nothing has come at all."""
        data = os.read(self._pipe, _READ_SIZE)
        orders = [messages.read_order(frame) for frame in self._frames.feed(data)]
        if not data or any(isinstance(order, Stop) for order in orders):
            self.over.set()
        return orders

    def take(self) -> bool:
        """Read and obey; False when it is over."""
        orders = self.read()
        if orders and not self.over.is_set():
            self.obey(orders)
        return not self.over.is_set()

    def first(self) -> Order | None:
        """The first order, with which every worker begins."""
        while not self.over.is_set():
            if orders := self.read():
                return orders[0]
        return None
