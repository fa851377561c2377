"""Reading a chat answer back: the model's text sorted into thoughts, text and calls, while it streams in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from foretoken.server.reasoning import Part, ReasoningParser


@dataclass(frozen=True, slots=True)
class Text:
    """More of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model begins to call a tool."""

    index: int
    id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of a call's arguments: a piece of JSON."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is complete; `source` is how the model wrote it."""

    index: int
    source: str


@dataclass(frozen=True, slots=True)
class CallBroken:
    """What began as a call did not become one: all that was said of it is text."""

    index: int
    source: str


Delta = Text | Thought | CallStarted | CallArguments | CallEnded | CallBroken


@dataclass(slots=True)
class Call:
    """A tool call, complete or growing."""

    id: str
    name: str
    arguments: str = ""


@dataclass(slots=True)
class Said:
    """Everything one answer said so far."""

    content: str = ""
    reasoning: str = ""
    _calls: dict[int, Call] = field(default_factory=dict)

    @property
    def calls(self) -> list[Call]:
        return list(self._calls.values())

    def take(self, delta: Delta) -> None:
        match delta:
            case Text(text):
                self.content += text
            case Thought(text):
                self.reasoning += text
            case CallStarted(index, call_id, name):
                self._calls[index] = Call(call_id, name)
            case CallArguments(index, text):
                self._calls[index].arguments += text
            case CallBroken(index, source):
                del self._calls[index]
                self.content += source


class AnswerParser(Protocol):
    """Tells text and calls apart; what may still become a call is held back."""

    def push(self, text: str) -> list[Delta]: ...
    def finish(self) -> list[Delta]: ...


class Reader:
    """Follows one choice; `thinking` None leaves thoughts in the text, no parser leaves calls there."""

    def __init__(self, thinking: bool | None, parser: AnswerParser | None = None) -> None:
        self.said = Said()
        self._reasoning = None if thinking is None else ReasoningParser(thinking)
        self._parser = parser

    def push(self, text: str) -> list[Delta]:
        """What this piece of the answer adds."""
        return self._noted(self._sorted(self._reasoning.push(text) if self._reasoning else Part(text)))

    def finish(self) -> list[Delta]:
        """What was held back, at the end."""
        rest = self._sorted(self._reasoning.finish() if self._reasoning else Part())
        return self._noted([*rest, *(self._parser.finish() if self._parser else [])])

    def _sorted(self, part: Part) -> list[Delta]:
        found: list[Delta] = [Thought(part.reasoning)] if part.reasoning else []
        if part.content:
            found += self._parser.push(part.content) if self._parser else [Text(part.content)]
        return found

    def _noted(self, found: list[Delta]) -> list[Delta]:
        for delta in found:
            self.said.take(delta)
        return found


def read_whole(reader: Reader, text: str) -> Said:
    """A complete answer, sorted."""
    reader.push(text)
    reader.finish()
    return reader.said
