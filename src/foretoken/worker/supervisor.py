"""Keeps a worker process alive and stands between it and everyone who asks it something."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Literal

from foretoken.config import EngineConfig
from foretoken.errors import EngineStopped, InvalidRequest
from foretoken.types import Chunk, Event, Finish, Request, Token, Usage
from foretoken.worker import messages
from foretoken.worker.backoff import Backoff
from foretoken.worker.embedding_asks import EmbeddingAsks
from foretoken.worker.messages import PULSE, Ended, LiveState, Properties, Report, Said, SlotState
from foretoken.worker.process import Process, StartFailed
from foretoken.worker.tickets import Line, Ticket

log = logging.getLogger("foretoken.worker")

State = Literal["loading", "ready", "restarting", "stopping", "failed"]

_MAX_INSIDE = 4096
_STOP_SECONDS = 5.0
_LATE_LOOKS = 3
_LOOK_SECONDS = 1.0
_STARTING_SECONDS = 0.05
"""Between two looks whether an engine that is starting has started."""


class Supervisor:
    """One engine that survives its own death, for one event loop."""

    def __init__(self, config: EngineConfig, patience: float = 60.0) -> None:
        self.state: State = "loading"
        self.properties: Properties | None = None
        self.reason: str | None = None
        """Why the worker died last, or why it could not start."""
        self.n_restarts = 0
        self.cache: dict[str, float] = {}
        """The state tree's counters, as of the last look."""
        self.n_decodes = 0
        """Batches computed by this worker, as of the last look at its slots."""
        self.n_busy = 0
        """Slots that these batches served, all added up."""
        # The line is kept here: inside, whatever was handed over is always accepted.
        self._config = replace(config, max_queue=max(config.max_queue, _MAX_INSIDE))
        self._patience = patience
        self._widths_ms: dict[int, float] = {}
        self._line = Line(config.max_queue)
        self._embeddings = EmbeddingAsks(config.max_queue)
        self._process: Process | None = None
        self._numbers = count(1)
        self._asked: dict[int, asyncio.Future[messages.Slots | messages.Live | None]] = {}
        self._ordered: dict[int, asyncio.Future[messages.SlotDone | None]] = {}
        self._seen: dict[type[messages.AskSlots | messages.AskLive], messages.Slots | messages.Live] = {}
        """The latest answers, for when the next one is late."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def n_waiting(self) -> int:
        """Requests that wait for a slot."""
        return self._line.n_waiting

    @property
    def n_running(self) -> int:
        """Requests that are being answered."""
        return len(self._line.waiting) + len(self._line.inside) - self._line.n_waiting

    @property
    def n_embedding(self) -> int:
        """Requests for embeddings that are not answered yet."""
        return len(self._embeddings)

    @property
    def pid(self) -> int | None:
        """The worker's process number, while there is one."""
        return self._process.pid if self._process else None

    async def start(self) -> Properties:
        """Start the worker and wait until its model is loaded; `EngineStopped` says why it could not be."""
        self._task = asyncio.create_task(self._run())
        while self.state == "loading":
            self._changed.clear()
            await self._changed.wait()
        if self.properties is None:
            raise EngineStopped(self.reason or "the worker was stopped")
        return self.properties

    async def failed(self) -> str:
        """Wait until the worker is given up; returns why."""
        while self.state != "failed":
            self._changed.clear()
            await self._changed.wait()
        return self.reason or "unknown"

    async def generate(self, request: Request) -> AsyncIterator[Event]:
        """The events of a request as they happen; leaving the loop early cancels it."""
        events: asyncio.Queue[Event | Exception] = asyncio.Queue()
        ticket = self.submit(request, events.put_nowait)
        try:
            remaining = request.n
            while remaining:
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                remaining -= isinstance(event, Finish)
                yield event
        finally:
            self.cancel(ticket)

    def submit(self, request: Request, deliver: Callable[[Event | Exception], None]) -> Ticket:
        """Put a request in line; its events, or the reason why there are none, are delivered."""
        if self.state in ("stopping", "failed"):
            raise EngineStopped(self._refusal())
        ticket = Ticket(request, deliver)
        self._line.add(ticket)
        self._hand_over()
        return ticket

    async def embed(self, texts: Sequence[Sequence[Token]]) -> list[bytes]:
        """The vectors of some texts, each as the bytes of its floats; cancelling the task cancels what is left."""
        while self._hopeful:
            await asyncio.sleep(_STARTING_SECONDS)
        if self._process is None or self.state != "ready":
            raise EngineStopped(self._refusal())
        return await self._embeddings.ask(texts, self._process.send)

    @property
    def _hopeful(self) -> bool:
        return self.state in ("loading", "restarting")

    def cancel(self, ticket: Ticket) -> None:
        """Forget a request, wherever it is; does nothing when it is over."""
        ticket.cancelled = True
        if not self._line.leave(ticket) and ticket.request.id in self._line.inside and self._process:
            self._process.send(messages.Cancel(ticket.request.id))

    def ticket(self, name: str | None) -> Ticket | None:
        """A request that the worker has, by its id."""
        return self._line.inside.get(name) if name is not None else None

    async def slots(self) -> tuple[SlotState, ...]:
        """What every slot is doing; empty while there is no worker."""
        found = await self._ask(messages.AskSlots)
        return found.slots if isinstance(found, messages.Slots) else ()

    async def live(self) -> LiveState | None:
        """What everything is doing; None while there is no worker."""
        found = await self._ask(messages.AskLive)
        return found.state if isinstance(found, messages.Live) else None

    async def _ask(self, order: type[messages.AskSlots | messages.AskLive]) -> messages.Slots | messages.Live | None:
        if self._process is None or self.state not in ("ready", "stopping"):
            return None
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._process.send(order(number))
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._asked[number]
        except TimeoutError:
            # A step may take minutes; who asks what is going on should not.
            return self._seen.get(order)
        finally:
            self._asked.pop(number, None)

    async def act_on_slot(
        self, slot: int, action: messages.SlotAction, owner: str, path: Path | None
    ) -> messages.SlotDone | None:
        """Save, restore or erase what a slot holds; None while there is no worker."""
        if self._process is None or self.state != "ready":
            return None
        number = next(self._numbers)
        self._ordered[number] = asyncio.get_running_loop().create_future()
        self._process.send(messages.SlotOrder(number, slot, action, owner, path))
        try:
            return await self._ordered[number]
        finally:
            self._ordered.pop(number, None)

    def drain(self) -> None:
        """Take no more requests and send the waiting ones away; the running ones go on."""
        if self.state != "failed":
            self._set("stopping")
        self._send_away()

    def abandon(self) -> None:
        """End what is still running, with an error."""
        for name in self._line.inside:
            if self._process is not None:
                self._process.send(messages.Cancel(name))
        self._lose(self._refusal())

    async def close(self) -> None:
        """End the worker."""
        listening = self.state == "ready" or self.n_running > 0
        self.drain()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._process is not None:
            await self._process.stop(_STOP_SECONDS if listening else 0.0)
            self._process = None
        self._lose(self._refusal())

    def _refusal(self) -> str:
        return f"the engine is down: {self.reason}" if self.state == "failed" else "the server is stopping"

    def _set(self, state: State) -> None:
        self.state = state
        self._changed.set()

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                backoff.lived(await self._live())
            except StartFailed as error:
                self.reason = str(error)
                backoff.not_started()
            if self.state == "stopping":
                return
            if self.properties is None or backoff.exhausted:
                self._set("failed")
                self._send_away()
                return
            log.warning("the engine is down (%s); starting it again in %.2f s", self.reason, backoff.pause)
            await asyncio.sleep(backoff.pause)
            self.n_restarts += 1

    async def _live(self) -> float:
        """One life of the worker, from start to death; returns for how long it was ready."""
        order = messages.Start(self._config, log.getEffectiveLevel(), self._patience, self._widths_ms)
        self._process = process = await Process.start(order, self._take)
        watching = asyncio.create_task(self._watch(process))
        try:
            ready = await process.ready()
            self.properties, self._widths_ms = ready.properties, ready.widths_ms
            self._line.n_slots = self.properties.n_slots
            if self.state != "stopping":
                self._set("ready")
            log.info("the engine is ready (process %d)", process.pid)
            started = time.monotonic()
            self._hand_over()
            self.reason = await process.death()
        except StartFailed:
            await process.stop(0.0)
            raise
        finally:
            watching.cancel()
            if process.ended:
                self._process = None
        if self.state != "stopping":
            self._set("restarting")
        self._seen.clear()
        self._lose(f"the engine died while answering: {self.reason}")
        return time.monotonic() - started

    async def _watch(self, process: Process) -> None:
        """End a process that gives no sign of life: what is still able to think ends itself."""
        loop = asyncio.get_running_loop()
        n_late = 0
        while n_late < _LATE_LOOKS:
            await asyncio.sleep(PULSE)
            # One look is not enough: it may have been we who were held up, with a sign of life yet unread.
            late = process.heard is not None and loop.time() - process.heard > self._patience
            n_late = n_late + 1 if late else 0
        process.kill(f"the engine hangs: it has given no sign of life for {self._patience:g} s")

    def _send_away(self) -> None:
        for ticket in self._line.empty():
            ticket.deliver(EngineStopped(self._refusal()))

    def _lose(self, message: str) -> None:
        """End what was being answered with an error; what was waiting goes on waiting, if there is hope."""
        for ticket in self._line.lose():
            for choice in sorted(ticket.remaining):
                ticket.deliver(Finish(choice, "error", Usage(), error=message))
        self._embeddings.lose(message)
        for asked in self._asked.values():
            if not asked.done():
                asked.set_result(None)
        for ordered in self._ordered.values():
            if not ordered.done():
                ordered.set_result(None)
        if self.state == "stopping":
            self._send_away()

    def _hand_over(self) -> None:
        """Give the worker as many waiting requests as it has room for."""
        if self._process is None or self.state not in ("ready", "stopping"):
            return
        while (ticket := self._line.next()) is not None:
            self._process.send(messages.Submit.of(ticket.request, ticket.waited))

    def _take(self, report: Report) -> None:
        if isinstance(report, messages.Slots | messages.Live):
            self._count(report)
            self._seen[messages.AskSlots if isinstance(report, messages.Slots) else messages.AskLive] = report
            if (asked := self._asked.get(report.number)) and not asked.done():
                asked.set_result(report)
        elif isinstance(report, messages.Embedded):
            self._embeddings.take(report)
        elif isinstance(report, messages.SlotDone):
            if (waiting := self._ordered.get(report.number)) and not waiting.done():
                waiting.set_result(report)
        elif isinstance(report, Said | Ended | messages.Invalid) and (ticket := self._line.inside.get(report.id)):
            self._deliver(ticket, report)

    def _count(self, report: messages.Slots | messages.Live) -> None:
        if isinstance(report, messages.Slots):
            self.n_decodes, self.n_busy, self.cache = report.n_decodes, report.n_busy, report.cache
        else:
            self.n_decodes, self.n_busy = report.state.n_decodes, int(report.state.totals["slots"])
            self.cache = report.state.cache

    def _deliver(self, ticket: Ticket, report: Said | Ended | messages.Invalid) -> None:
        event: Chunk | Finish | Exception
        if isinstance(report, Said):
            ticket.answered = True
            event = report.chunk
        elif isinstance(report, Ended):
            event = report.finish
            self._line.finished(ticket, report.finish.choice)
        else:
            event = InvalidRequest(report.message)
            self._line.inside.pop(ticket.request.id, None)
        ticket.deliver(event)
        if not isinstance(report, Said):
            self._hand_over()
