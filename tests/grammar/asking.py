"""Asking an engine for a constrained answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from foretoken import Chunk, Engine, Finish, Request, SamplingParams
from foretoken.types import OFF, Constraint, Token, Usage

GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    tokens: tuple[Token, ...]
    text: str
    finish: Finish

    @property
    def usage(self) -> Usage:
        return self.finish.usage


def ask(engine: Engine, request: Request) -> Answer:
    events = list(engine.generate(request))
    chunks = [event for event in events if isinstance(event, Chunk)]
    finish = events[-1]
    assert isinstance(finish, Finish)
    tokens = tuple(info.id for chunk in chunks for info in chunk.tokens)
    return Answer(tokens, "".join(chunk.text for chunk in chunks), finish)


def both(engine: Engine, request: Request) -> tuple[Answer, Answer]:
    """The answer with speculation and the one without, which say the same."""
    speculated, plain = ask(engine, request), ask(engine, replace(request, speculation=OFF))
    assert speculated.tokens == plain.tokens
    assert speculated.finish.reason == plain.finish.reason
    return speculated, plain


def keeping_to(schema: Any, prompt: str = "Answer in JSON:", params: SamplingParams = GREEDY) -> Request:
    """A request with room enough for what a bounded schema allows."""
    return Request(prompt, params, max_tokens=900, constraint=Constraint("json_schema", json.dumps(schema)))
