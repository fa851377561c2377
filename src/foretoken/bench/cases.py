"""From workloads to single requests: turns get their history, chats the model's template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from foretoken.bench.workloads import Conversation, Workload
from foretoken.chat import ChatTemplate
from foretoken.llama.model import Model
from foretoken.types import SamplingParams

Messages = tuple[dict[str, str], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One request of a workload: the prompt as text, and as messages where it is a chat."""

    workload: str
    name: str
    prompt: str
    sampling: SamplingParams
    max_tokens: int
    messages: Messages = ()

    @property
    def label(self) -> str:
        return f"{self.workload}/{self.name}"


class HasText(Protocol):
    """An answer, as far as the next turn needs it."""

    @property
    def text(self) -> str: ...


A = TypeVar("A", bound=HasText)
Render = Callable[[Messages], str]


def renderer(model: Model) -> Render:
    """How a model's own template writes messages; models that think are asked not to."""
    names = [model.vocabulary.piece(t).decode() if t is not None else "" for t in _ends(model)]
    template = ChatTemplate(model.chat_template, *names)
    return lambda messages: template.render(messages, enable_thinking=False)


def play(
    workload: Workload, render: Render | None, answer: Callable[[Case], A | None], max_tokens: int | None = None
) -> Iterator[tuple[Case, A]]:
    """Every request of a workload with its answer; the answers become the history of later turns.

    Without `render` whoever answers has a template, and answers begin as they like. A conversation ends early
    where `answer` gives None: its prompt does not fit.
    """
    for conversation in workload.conversations:
        messages: Messages = ()
        for number, turn in enumerate(conversation.turns, 1):
            messages = (*messages, {"role": "user", "content": turn})
            case = _case(workload, conversation, number, messages, render)
            case = replace(case, max_tokens=min(case.max_tokens, max_tokens or case.max_tokens))
            reply = answer(case)
            if reply is None:
                break
            yield case, reply
            start = conversation.answer_start if render else ""
            messages = (*messages, {"role": "assistant", "content": start + reply.text})


def _case(workload: Workload, conversation: Conversation, turn: int, messages: Messages, render: Render | None) -> Case:
    name = conversation.name if len(conversation.turns) == 1 else f"{conversation.name} {turn}"
    sampling = SamplingParams(temperature=workload.temperature, seed=workload.seed)
    if workload.kind == "continuation":
        return Case(workload.name, name, conversation.turns[turn - 1], sampling, workload.max_tokens)
    prompt = render(messages) + conversation.answer_start if render else ""
    return Case(workload.name, name, prompt, sampling, workload.max_tokens, messages)


def _ends(model: Model) -> tuple[int | None, int | None]:
    return model.vocabulary.bos, model.vocabulary.eos
