"""The engine as a library: load a model, ask it things, from any thread or event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from foretoken.cache.archive import Archive
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.assembly import Assembly, assemble
from foretoken.engine.calibration import calibrated
from foretoken.engine.host import EngineHost
from foretoken.engine.inbox import Command, Inbox, Source
from foretoken.engine.loop import Loop
from foretoken.engine.persistence import open_archive
from foretoken.engine.session import Emit
from foretoken.engine.validation import prompt_tokens
from foretoken.errors import EngineStopped
from foretoken.grammar.compiler import Compiler
from foretoken.grammar.grammar import Grammar
from foretoken.llama.guidance import guidance_tokenizer
from foretoken.llama.model import Model
from foretoken.llama.vocabulary import Vocabulary
from foretoken.speculation.adaptive import AdaptivePlanner
from foretoken.speculation.cost import StepCost
from foretoken.speculation.planner import FixedPlanner, Planner
from foretoken.speculation.registry import build, resolve
from foretoken.speculation.speculator import Speculator
from foretoken.types import Chunk, Event, Finish, Request, Token

log = logging.getLogger("foretoken.engine")

T = TypeVar("T")


class _Parts(NamedTuple):
    assembly: Assembly
    host: EngineHost
    loop: Loop
    archive: Archive | None


class Engine:
    """A model with slots, served by one thread of its own."""

    assembly: Assembly
    _host: EngineHost
    _loop: Loop

    def __init__(self, build: Callable[[], _Parts]) -> None:
        self.compiler = Compiler(lambda: guidance_tokenizer(self.vocabulary))
        self._inbox = Inbox()
        self._lock = threading.Lock()
        self._closing = False
        self._stopped: str | None = None
        self._busy_since: float | None = None
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._live, args=(build, ready), name="foretoken-engine", daemon=True)
        self._thread.start()
        ready.result()

    @classmethod
    def load(cls, model: str | Path | ModelConfig, **settings: Any) -> Engine:
        """Load a GGUF; the keywords are the fields of `EngineConfig`."""
        source = model if isinstance(model, ModelConfig) else ModelConfig(Path(model))
        return cls.from_config(EngineConfig(source, **settings))

    @classmethod
    def from_config(
        cls,
        config: EngineConfig,
        told: Callable[[], None] = lambda: None,
        widths_ms: Mapping[int, float] | None = None,
        borrowed: Model | None = None,
    ) -> Engine:
        """Load what the settings say.

        `told` is called on the engine's thread when a step has told its events; `widths_ms` is a calibration
        that an engine with the same settings found before; a `borrowed` model is loaded already, and stays.
        """
        return cls(lambda: _build(config, told, widths_ms, borrowed))

    @property
    def vocabulary(self) -> Vocabulary:
        return self.assembly.model.vocabulary

    @property
    def n_ctx(self) -> int:
        """Tokens of one slot's context."""
        return self.assembly.context.n_ctx

    @property
    def failed(self) -> str | None:
        """Why the engine answers no more, if it was not asked to stop."""
        return None if self._closing else self._stopped

    @property
    def busy(self) -> tuple[float, int, int]:
        """Seconds that the engine's thread has been at the same step (0 is idle), its rows, and how deep they are."""
        since = self._busy_since
        return (0.0, 0, 0) if since is None else (time.monotonic() - since, self._loop.width, self._loop.depth)

    def tokenize(self, text: str | bytes) -> list[Token]:
        return self.vocabulary.tokenize(text)

    def detokenize(self, tokens: list[Token]) -> str:
        return self.vocabulary.detokenize(tokens)

    def generate(self, request: Request) -> Generator[Event, None, None]:
        """The events of a request as they happen; leaving the loop early cancels it."""
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        cancel = self._submit(request, events.put)
        try:
            remaining = request.n
            while remaining:
                event = events.get()
                remaining -= isinstance(event, Finish)
                yield event
        finally:
            cancel()

    async def agenerate(self, request: Request) -> AsyncIterator[Event]:
        """The same for an event loop; cancelling the task cancels the request."""
        home = asyncio.get_running_loop()
        events: asyncio.Queue[Event] = asyncio.Queue()
        cancel = self._submit(request, lambda event: _hand_over(home, events, event))
        try:
            remaining = request.n
            while remaining:
                event = await events.get()
                remaining -= isinstance(event, Finish)
                yield event
        finally:
            cancel()

    def complete(self, request: Request) -> str:
        """The text of the first choice, once it is finished."""
        return "".join(event.text for event in self.generate(request) if isinstance(event, Chunk) and event.choice == 0)

    def prepare(self, request: Request) -> tuple[list[Token], Grammar | None]:
        """Everything about a request that takes time and may fail: its prompt as tokens, its grammar ready for use."""
        prompt = prompt_tokens(request, self.vocabulary, self.n_ctx)
        constraint = request.constraint
        return prompt, None if constraint is None else self.compiler.compile(constraint)

    def call(self, function: Callable[[Loop], T]) -> T:
        """Run a function on the engine's own thread, between steps, and return what it returns."""
        future: Future[T] = Future()

        def command() -> None:
            try:
                future.set_result(function(self._loop))
            except BaseException as error:
                future.set_exception(error)

        self._send(command)
        return future.result()

    def tell(self, function: Callable[[Loop], None]) -> None:
        """Have the engine's thread run a function before its next step, and do not wait for that."""
        self._send(lambda: function(self._loop))

    def attend(self, source: Source) -> None:
        """Have the engine's thread take in this source's orders, between steps and while there is nothing to do."""
        self.call(lambda loop: self._inbox.attend(source))

    def wake(self) -> None:
        """Have a thread that waits look again whether there is something to do."""
        with contextlib.suppress(EngineStopped):
            self._send(lambda: None)

    def flush(self, seconds: float) -> None:
        """Wait until what is kept of finished requests is on disk."""
        self._loop.cache.flush(seconds)

    def close(self) -> None:
        """Stop after the current step; requests in flight end with an error event."""
        self._closing = True
        self.wake()
        self._thread.join()
        self._inbox.close()
        self._loop.cache.close()
        self._host.close()
        self.assembly.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _submit(self, request: Request, emit: Emit) -> Callable[[], None]:
        """Queue a request; returns how to cancel it."""
        if self._stopped is not None:
            raise EngineStopped(self._stopped)
        prompt, grammar = self.prepare(request)
        sessions = self.call(lambda loop: loop.submit(request, prompt, emit, grammar))

        def cancel() -> None:
            for session in sessions:
                session.cancelled = True
            # A busy thread looks at the flags before its next step.
            self.wake()

        return cancel

    def _send(self, command: Command) -> None:
        with self._lock:
            if self._stopped is not None:
                raise EngineStopped(self._stopped)
            self._inbox.put(command)

    def _live(self, build: Callable[[], _Parts], ready: Future[None]) -> None:
        """Load and serve on one thread.

        OpenMP keeps a team per thread that ever computed: with a second team there are more threads than cores, and
        then those that wait at a barrier go to sleep. Probing and calibrating elsewhere made every step twice as long.
        """
        try:
            self.assembly, self._host, self._loop, archive = build()
        except BaseException as error:
            ready.set_exception(error)
            return
        if archive is not None:
            archive.wake = self.wake
        ready.set_result(None)
        self._run()

    def _run(self) -> None:
        reason = "the engine was closed"
        try:
            while not self._closing:
                self._obey(wait=self._loop.idle)
                self._busy_since = self._busy_since or time.monotonic()
                self._loop.step()
                self._busy_since = None
        except BaseException as error:
            reason = f"the engine died: {type(error).__name__}: {error}"
            log.exception("the engine died")
        with self._lock:
            self._stopped = reason
        self._obey(wait=False)
        self._loop.abort(reason)

    def _obey(self, wait: bool) -> None:
        """Run the commands that have come in; when there is nothing else to do, wait for one."""
        for command in self._inbox.take(wait):
            self._busy_since = self._busy_since or time.monotonic()
            command()


def _build(
    config: EngineConfig, told: Callable[[], None], widths_ms: Mapping[int, float] | None, borrowed: Model | None
) -> _Parts:
    """Everything an engine is made of."""
    if "mtp" in resolve(config.speculation):
        config = replace(config, model=replace(config.model, load_mtp=True))
    assembly = assemble(config, borrowed)
    if assembly.alone:
        config = _plain(config)
    host = EngineHost(config, assembly)
    try:
        speculator = _speculator(config, assembly, host, widths_ms)
        archive = open_archive(config.cache, assembly)
    except BaseException:
        host.close()
        assembly.close()
        raise
    log.info("%s", assembly.describe())
    if not assembly.restores:
        log.warning("states of this model cannot be kept outside its slots; prompts are shared within slots only")
        config = replace(config, cache=replace(config.cache, n_host_bytes=0))
    loop = Loop(assembly.context, assembly.memory, assembly.model.vocabulary, speculator, config, archive, told)
    return _Parts(assembly, host, loop, archive)


def _speculator(
    config: EngineConfig, assembly: Assembly, host: EngineHost, widths_ms: Mapping[int, float] | None
) -> Speculator:
    settings = config.speculation
    vocabulary = assembly.model.vocabulary
    drafters = build(settings, host)
    bounds = (settings.n_min, settings.n_max, settings.p_min)
    planner: Planner = FixedPlanner(*bounds)
    if drafters and settings.plan == "adaptive":
        cost = StepCost(widths_ms or calibrated(assembly))
        planner = AdaptivePlanner(cost, assembly.memory_cost, *bounds, settings.n_tries)
    return Speculator(drafters, planner, vocabulary.n_tokens, vocabulary.end_tokens)


def _plain(config: EngineConfig) -> EngineConfig:
    """Every row decoded the way one request alone decodes it."""
    speculation = replace(config.speculation, drafters=())
    return replace(
        config, n_parallel=1, speculation=speculation, cache=replace(config.cache, n_host_bytes=0, reuse=False)
    )


def _hand_over(home: asyncio.AbstractEventLoop, events: asyncio.Queue[Event], event: Event) -> None:
    # The loop may be gone when the engine still has something to say to a client that left.
    with contextlib.suppress(RuntimeError):
        home.call_soon_threadsafe(events.put_nowait, event)
