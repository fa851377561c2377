"""Side by side, step by step: what the machine does meanwhile happens to all alike.

A machine that is shared is faster in one second than in the next, so two whole answers, one after the other, tell
little about which way is faster. Here each way has a loop and a context of its own over one loaded model, all on the
thread of one engine, and all cover the same stretch of text within the same moments.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol, TypeVar

from foretoken.bench.answers import Answer, Listener, fresh_owner
from foretoken.bench.cases import Case
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED
from foretoken.bench.oracle import Limit, OracleDrafter
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.errors import ForetokenError
from foretoken.llama.context import Context
from foretoken.memory import KINDS
from foretoken.speculation.speculator import Speculator
from foretoken.types import Request, Token

Asked = Sequence[tuple[Case, Request, list[Token]]]
"""Cases, with the requests they are and the tokens of their prompts."""


class Progress(Protocol):
    """How far a lane is."""

    @property
    def n_tokens(self) -> int: ...
    @property
    def seconds(self) -> float: ...


P = TypeVar("P", bound=Progress)


def due(lanes: Sequence[P]) -> P:
    """Who steps next: whoever has said least; of those, whoever has had the least time."""
    return min(lanes, key=lambda lane: (lane.n_tokens, lane.seconds))


class Lane:
    """A loop that answers cases, with a clock that runs in its own steps only."""

    def __init__(self, loop: Loop, asked: Asked) -> None:
        self.seconds = 0.0
        """What its steps have taken."""
        self._loop = loop
        self._started = 0.0
        self._listeners = [Listener(case, self._now) for case, _, _ in asked]
        # The same case in the same slot in every lane: a batch for slots 0, 1 and 3 takes longer than for 0, 1 and 2.
        for slot in loop.scheduler.slots:
            slot.last_used = 0
        for (_, request, prompt), listener in zip(asked, self._listeners, strict=True):
            loop.submit(request, prompt, listener.hear)

    @property
    def n_tokens(self) -> int:
        return sum(listener.n_tokens for listener in self._listeners)

    @property
    def done(self) -> bool:
        return all(listener.finish for listener in self._listeners)

    def step(self) -> None:
        self._started = time.perf_counter()
        self._loop.step()
        self.seconds = self._now()

    def answers(self) -> list[Answer]:
        return [listener.answer() for listener in self._listeners]

    def _now(self) -> float:
        return self.seconds + time.perf_counter() - self._started


class SideBySide:
    """The loops of one engine's thread, all asked the same at once."""

    label = "side by side"

    def __init__(
        self,
        engine: Engine,
        loops: Mapping[str, Loop],
        oracle: OracleDrafter,
        recorded: Mapping[str, tuple[Token, ...]],
    ) -> None:
        self._engine = engine
        self.loops = dict(loops)
        self._places = list(loops.values())
        self._ways = [loop.speculator for loop in loops.values()]
        self._oracle = oracle
        self._recorded = recorded
        self._n_asked = 0
        self._interrupted = False

    def ask(self, cases: Sequence[Case]) -> dict[str, list[Answer]]:
        """The answers of every loop; who begins changes from time to time."""
        asked = [self._asked(case) for case in cases]
        self._oracle.recordings = {request.owner: self._recorded[case.label] for case, request, _ in asked}
        labels = list(self.loops)
        first = self._n_asked % len(labels)
        self._take_places(self._n_asked // len(labels))
        self._n_asked += 1
        try:
            # Between two calls the engine would step its own loop.
            found = self._engine.call(lambda _: self._run(asked, [*labels[first:], *labels[:first]]))
        except KeyboardInterrupt:
            # It was this thread's; the engine's goes on until it is told.
            self._interrupted = True
            raise
        return {label: found[label] for label in labels}

    def _take_places(self, turn: int) -> None:
        """Give every way another context.

        One is faster than the next by half a percent, perhaps by where it lies in memory: each way has each in turn.
        """
        if any(way.reads for way in self._ways):
            return
        turn %= len(self._places)
        loops = [*self._places[turn:], *self._places[:turn]]
        self.loops = dict(zip(self.loops, loops, strict=True))
        for loop, way in zip(loops, self._ways, strict=True):
            loop.speculator = way

    def go_home(self) -> None:
        """Every way to the context that was made for it."""
        self._take_places(0)

    def _asked(self, case: Case) -> tuple[Case, Request, list[Token]]:
        request = Request(case.prompt, case.sampling, case.max_tokens, cache_prompt=False, owner=fresh_owner())
        return case, request, self._engine.prepare(request)[0]

    def _run(self, asked: Asked, order: Sequence[str]) -> dict[str, list[Answer]]:
        try:
            lanes = {label: Lane(self.loops[label], asked) for label in order}
            while left := [lane for lane in lanes.values() if not lane.done]:
                if self._interrupted:
                    raise ForetokenError("the measurement was interrupted")
                due(left).step()
            return {label: lane.answers() for label, lane in lanes.items()}
        except BaseException:
            for loop in self.loops.values():
                loop.abort("another lane failed")
            raise


@contextmanager
def side_by_side(engine: Engine, limit: Limit, recorded: Mapping[str, tuple[Token, ...]]) -> Iterator[SideBySide]:
    """Plain, as the engine speculates, and with the oracle; the recorded answers come by the labels of their cases."""
    with ExitStack() as opened:
        loops = {
            PLAIN: another_loop(engine, Speculator(), opened),
            SPECULATED: engine.call(lambda loop: loop),
            LIMIT: another_loop(engine, limit.speculator, opened),
        }
        # As the server's worker does: looking through all that was loaded for garbage takes longer than a step.
        gc.freeze()
        opened.callback(gc.unfreeze)
        together = SideBySide(engine, loops, limit.drafter, recorded)
        opened.callback(together.go_home)
        yield together


def another_loop(engine: Engine, speculator: Speculator, opened: ExitStack) -> Loop:
    """A loop over an engine's model, with settings like its own and a context of its own."""
    parts = engine.assembly
    # Whatever computes does so on the engine's thread: every other thread would have a team of its own there.
    context = engine.call(lambda loop: Context(parts.model, parts.context.config))
    opened.callback(lambda: engine.call(lambda loop: context.close()))
    memory = KINDS[parts.memory.name](context)
    return engine.call(lambda loop: Loop(context, memory, engine.vocabulary, speculator, loop.config))
