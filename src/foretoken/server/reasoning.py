"""Telling a model's thinking from its answer, while both stream in."""

from __future__ import annotations

from dataclasses import dataclass

from foretoken.chat import CLOSE, OPEN


@dataclass(frozen=True, slots=True)
class Part:
    """New text, sorted."""

    content: str = ""
    reasoning: str = ""


class ReasoningParser:
    """Takes text piece by piece; what may still become a tag is held back until it is decided."""

    def __init__(self, thinking: bool) -> None:
        self._state = "thinking" if thinking else "start"
        self._held = ""
        self._trim = True

    def push(self, text: str) -> Part:
        self._held += text
        content = reasoning = ""
        if self._state == "start":
            self._look_for_opening()
        if self._state == "thinking":
            reasoning = self._take_reasoning()
        if self._state == "answering":
            content, self._held = self._held, ""
            content = self._trimmed(content)
        return Part(content, reasoning)

    def finish(self) -> Part:
        """What was held back, at the end."""
        rest, self._held = self._held, ""
        if self._state == "thinking":
            return Part(reasoning=rest.rstrip())
        return Part(content=self._trimmed(rest) if self._state == "answering" else rest)

    def _look_for_opening(self) -> None:
        bare = self._held.lstrip()
        if bare.startswith(OPEN):
            self._held = bare[len(OPEN) :]
            self._state = "thinking"
        elif not OPEN.startswith(bare):
            self._state = "answering"
            self._trim = False

    def _take_reasoning(self) -> str:
        if self._trim:
            self._held = self._held.lstrip("\n")
        before, tag, after = self._held.partition(CLOSE)
        if tag:
            self._held, self._state, self._trim = after, "answering", True
            return before.rstrip("\n")
        keep = _undecided(before)
        out, self._held = before[: len(before) - keep], before[len(before) - keep :]
        self._trim = self._trim and not out
        return out

    def _trimmed(self, text: str) -> str:
        if self._trim:
            text = text.lstrip("\n")
            self._trim = not text
        return text


def _undecided(text: str) -> int:
    """How much of the end could be the beginning of the closing tag, with the line breaks before it."""
    for n in range(min(len(CLOSE) - 1, len(text)), -1, -1):
        if CLOSE.startswith(text[len(text) - n :]):
            before = text[: len(text) - n]
            return n + len(before) - len(before.rstrip("\n"))
    return 0
