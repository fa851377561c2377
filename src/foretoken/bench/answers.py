"""Asking: one request or several at once, and what came back with the times it came."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count

from foretoken.bench.cases import Case
from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.types import Chunk, Finish, Request, SpeculationParams, Token, TokenInfo, Usage

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
    infos: list[TokenInfo] = []
    text: list[str] = []
    marks: list[tuple[float, int]] = []
    for event in engine.generate(request):
        if isinstance(event, Finish):
            return _complete(case, event, text, infos, marks)
        if isinstance(event, Chunk) and event.tokens:
            marks.append((time.perf_counter(), len(event.tokens)))
        infos += event.tokens
        text.append(event.text)
    raise ForetokenError(f"{case.label}: the answer never ended")


def at_once(actions: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """Run all actions together, each in a thread of its own."""
    if len(actions) == 1:
        return [actions[0]()]
    with ThreadPoolExecutor(len(actions)) as pool:
        return [future.result() for future in [pool.submit(action) for action in actions]]


def _complete(
    case: Case, finish: Finish, text: list[str], infos: list[TokenInfo], marks: list[tuple[float, int]]
) -> Answer:
    if finish.reason == "error":
        raise ForetokenError(f"{case.label}: {finish.error}")
    usage = finish.usage
    tokens = tuple(info.id for info in infos)
    return Answer("".join(text), len(tokens), usage.generation_ms, tuple(marks), tokens, tuple(infos), usage)
