"""One turn of a chat, whatever dialect it was asked in: what the engine is asked, how its answer is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from foretoken.server import chat
from foretoken.server.chat import ChatBody
from foretoken.server.reading import AnswerParser, Reader
from foretoken.server.service import Service
from foretoken.types import Constraint, Request, Token


@dataclass(frozen=True, slots=True)
class Turn:
    """A conversation ready for the engine."""

    request: Request
    thinking: bool | None
    """Whether the answer begins inside a thought; None leaves thoughts in the text."""
    parser: Callable[[], AnswerParser] | None = None
    """Finds calls in the answer; None where there is nothing to call."""

    def reader(self) -> Reader:
        """Reads one choice of the answer."""
        return Reader(self.thinking, self.parser and self.parser())


async def prompt_of(service: Service, body: ChatBody, owner: str) -> tuple[str, list[Token]]:
    """A conversation in the model's template, as text and as tokens."""
    prompt = chat.render(service, body)
    return prompt, await service.tokenizing(service.texts.tokenize, prompt, owner, size=len(prompt))


async def prepare(service: Service, body: ChatBody, owner: str) -> Turn:
    """Put a conversation into the model's template and everything else it asks for into a request."""
    prompt, tokens = await prompt_of(service, body, owner)
    n = body.n or 1
    service.check_choices(n)
    thought = service.template.thought_before(prompt)
    request = service.request(
        body, tokens, owner, max_tokens=body.n_wanted, n=n, logprobs=body.n_logprobs, thought=thought
    )
    thinking = None if body.reasoning_format == "none" else chat.thinks_first(prompt)
    use = body.tool_use
    if not use.offered:
        return Turn(request, thinking)
    dialect, vocabulary = service.dialect, service.vocabulary
    if not use.callable:
        # The tools stay in the prompt, so that what was read of it is still good when they may be called again.
        banned = (*request.sampling.banned, *dialect.tokens(vocabulary).values())
        return Turn(replace(request, sampling=replace(request.sampling, banned=banned)), thinking)
    shown = tuple(dialect.control(vocabulary).values())
    constraint = request.constraint
    if use.constrained or constraint is not None:
        constraint = Constraint("lark", dialect.grammar(use, vocabulary, constraint), thought, "tools")
    return Turn(replace(request, constraint=constraint, shown=shown), thinking, lambda: dialect.parser(use))
