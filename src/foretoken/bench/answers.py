"""Asking: one request or several at once, and what came back with the times it came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count

from foretoken.bench.cases import Case
from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.types import Event, Finish, Request, SpeculationParams, Token, TokenInfo, Usage

_owners = count()


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer; `marks` says when how many of its tokens came."""

    text: str
    n_tokens: int
    generation_ms: float
    """From the first token to the last."""
    marks: tuple[tuple[float, int], ...]
    tokens: tuple[Token, ...] = ()
    """Empty for servers, which only show text."""
    infos: tuple[TokenInfo, ...] = ()
    usage: Usage | None = None


def fresh_owner() -> str:
    """An owner nobody had before: drafters remember what they saw per owner."""
    return f"bench-{next(_owners)}"


def ask(
    engine: Engine,
    case: Case,
    speculation: SpeculationParams,
    owner: str | None = None,
    logprobs: int | None = None,
    max_tokens: int | None = None,
    cache_prompt: bool = False,
) -> Answer:
    """Ask an engine; unless told otherwise, nothing left over from earlier requests helps."""
    request = Request(
        case.prompt,
        case.sampling,
        max_tokens=case.max_tokens if max_tokens is None else max_tokens,
        logprobs=logprobs,
        cache_prompt=cache_prompt,
        speculation=speculation,
        owner=owner or fresh_owner(),
    )
    listener = Listener(case)
    for event in engine.generate(request):
        listener.hear(event)
    answer = listener.answer()
    assert answer.usage is not None
    return replace(answer, generation_ms=answer.usage.generation_ms)


class Listener:
    """Puts an answer together from its events, which come while some clock runs."""

    def __init__(self, case: Case, clock: Callable[[], float] = time.perf_counter) -> None:
        self.n_tokens = 0
        self.finish: Finish | None = None
        self._case = case
        self._clock = clock
        self._infos: list[TokenInfo] = []
        self._text: list[str] = []
        self._marks: list[tuple[float, int]] = []

    def hear(self, event: Event) -> None:
        if isinstance(event, Finish):
            self.finish = event
            return
        self._text.append(event.text)
        if event.tokens:
            self._marks.append((self._clock(), len(event.tokens)))
            self._infos += event.tokens
            self.n_tokens += len(event.tokens)

    def answer(self) -> Answer:
        """What was said, once it has ended, timed by the clock."""
        if self.finish is None:
            raise ForetokenError(f"{self._case.label}: the answer never ended")
        if self.finish.reason == "error":
            raise ForetokenError(f"{self._case.label}: {self.finish.error}")
        ms = (self._marks[-1][0] - self._marks[0][0]) * 1e3 if self._marks else 0.0
        tokens = tuple(info.id for info in self._infos)
        return Answer(
            "".join(self._text), len(tokens), ms, tuple(self._marks), tokens, tuple(self._infos), self.finish.usage
        )


def at_once(actions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Run all actions together, each in a thread of its own."""
    if len(actions) == 1:
        return [actions[0]()]
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(action) for action in actions]]
