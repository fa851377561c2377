"""Where an engine's thread finds what others want of it, and where it waits when there is nothing to compute."""

from __future__ import annotations

import contextlib
import os
import queue
import select
from collections.abc import Callable, Iterator
from typing import Protocol

Command = Callable[[], None]


class Source(Protocol):
    """Something outside this process that has orders for the engine."""

    def fileno(self) -> int:
        """Can be read when there are orders."""
        ...

    def take(self) -> bool:
        """Take the orders in; False when there will be no more."""
        ...


class Inbox:
    """Commands from any thread; with a source, the engine's thread takes in its orders as well.

    That thread is the one that must wake up when there is something to do: another that listens for it would have to
    wake up first.
    """

    def __init__(self) -> None:
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._ear: _Ear | None = None

    def attend(self, source: Source) -> None:
        """Take in this source's orders from now on; call it on the engine's thread."""
        self._ear = _Ear(source)

    def put(self, command: Command) -> None:
        """Have the engine's thread run this before its next step."""
        self._commands.put(command)
        if self._ear is not None:
            self._ear.wake()

    def take(self, wait: bool) -> Iterator[Command]:
        """What has come in; if nothing has, and there is nothing else to do, wait for it."""
        if self._ear is not None:
            self._ear.listen(wait, self._commands.empty)
        elif wait:
            yield self._commands.get()
        # Nobody else takes anything out.
        while not self._commands.empty():
            yield self._commands.get_nowait()

    def close(self) -> None:
        """Attend to the source no longer."""
        if self._ear is not None:
            self._ear.close()


class _Ear:
    """Waits for a source, and for a bell that others ring."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._bell, self._rope = os.pipe()
        os.set_blocking(self._rope, False)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._poll.register(source.fileno(), select.POLLIN)
        self._asleep = False

    def wake(self) -> None:
        if self._asleep:
            # A pipe that is full has rung often enough.
            with contextlib.suppress(BlockingIOError):
                os.write(self._rope, b"!")

    def listen(self, wait: bool, idle: Callable[[], bool]) -> None:
        """Let the source take in its orders; wait for some if that is wanted and all is still idle."""
        self._asleep = wait
        # Whether it is idle is looked at only now: whoever comes later sees that somebody sleeps.
        heard = self._poll.poll(None if wait and idle() else 0)
        self._asleep = False
        for descriptor, _ in heard:
            if descriptor == self._bell:
                os.read(descriptor, 4096)
            elif not self._source.take():
                self._poll.unregister(descriptor)

    def close(self) -> None:
        os.close(self._bell)
        os.close(self._rope)
