"""The worker compiles beside the engine: others go on meanwhile, and who leaves is let go."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foretoken import Engine, Request
from foretoken.grammar.grammar import Grammar
from foretoken.types import Token
from foretoken.worker.messages import Cancel, Ended, Invalid, Report, Said, Submit
from foretoken.worker.service import Service
from tests.grammar.asking import GREEDY, keeping_to

SECONDS = 30.0


class Desk:
    """A service whose reports are kept, and whose grammars are compiled only when they may."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.reports: queue.SimpleQueue[Report] = queue.SimpleQueue()
        self.may_compile = threading.Event()
        self.service = Service(engine, self)  # type: ignore[arg-type]
        self._prepare, engine.prepare = engine.prepare, self.prepare  # type: ignore[method-assign]

    def send(self, report: Report) -> None:
        if not isinstance(report, Said):
            self.reports.put(report)

    def gather(self, report: Report, awaited: bool = False) -> None:
        self.send(report)

    def prepare(self, request: Request) -> tuple[list[Token], Grammar | None]:
        if request.constraint is not None:
            assert self.may_compile.wait(SECONDS)
        return self._prepare(request)

    def submit(self, request: Request) -> str:
        prompt = tuple(self.engine.tokenize("Answer in JSON:"))
        sent = Request(prompt, GREEDY, max_tokens=200, constraint=request.constraint)
        self.service.obey([Submit.of(sent)])
        return sent.id


@pytest.fixture
def desk(tiny_path: Callable[..., Path]) -> Iterator[Desk]:
    with Engine.load(tiny_path("llama"), n_ctx=256, n_threads=1) as engine:
        yield Desk(engine)


def test_others_do_not_wait_for_a_compilation(desk: Desk) -> None:
    slow, quick = desk.submit(keeping_to({"enum": [1, 2]})), desk.submit(Request("x"))
    first = desk.reports.get(timeout=SECONDS)
    assert isinstance(first, Ended)
    assert first.id == quick
    desk.may_compile.set()
    second = desk.reports.get(timeout=SECONDS)
    assert isinstance(second, Ended)
    assert (second.id, second.finish.reason) == (slow, "stop")


def test_who_leaves_during_a_compilation_is_let_go(desk: Desk) -> None:
    name = desk.submit(keeping_to({"enum": [1, 2]}))
    desk.service.obey([Cancel(name)])
    desk.may_compile.set()
    report = desk.reports.get(timeout=SECONDS)
    assert isinstance(report, Ended)
    assert (report.id, report.finish.reason) == (name, "cancelled")


def test_a_compiler_that_breaks_is_no_silence(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    class Panic(BaseException):
        """What a panic in Rust looks like from here."""

    def panic(request: Request) -> tuple[list[Token], Grammar | None]:
        raise Panic

    monkeypatch.setattr(desk.engine, "prepare", panic)
    name = desk.submit(keeping_to({"enum": [1, 2]}))
    assert desk.reports.get(timeout=SECONDS) == Invalid(name, "the grammar cannot be compiled; the log says why")
