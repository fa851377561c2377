"""Ends that llama.cpp's editors ask for: at a lesser indentation, or after some time and a whole line."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from foretoken.server.answering import Answering, Numbered
from foretoken.types import Finish


@dataclass(frozen=True, slots=True)
class Cut:
    """When an answer ends before the model ends it."""

    n_indent: int = 0
    """A line indented less than this is not part of the answer."""
    seconds: float | None = None
    """After this long, an answer of more than one line ends."""


class _Cutter:
    """Follows the text of one choice."""

    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._indent: int | None = None
        self._seen_line = False
        self._started: float | None = None
        self.over = False

    def pass_on(self, text: str) -> str:
        """The part of the text that belongs to the answer."""
        if self._started is None:
            self._started = time.perf_counter()
        end = self._end(text) if self._cut.n_indent else None
        self._seen_line = self._seen_line or "\n" in text
        limit = self._cut.seconds
        late = limit is not None and time.perf_counter() - self._started > limit
        self.over = end is not None or (late and self._seen_line)
        return text if end is None else text[:end]

    def _end(self, text: str) -> int | None:
        for at, letter in enumerate(text):
            if letter == "\n":
                self._indent = 0
            elif self._indent is None:
                continue
            elif letter in " \t":
                self._indent += 1
            elif self._indent < self._cut.n_indent:
                return at
            else:
                self._indent = None
        return None


class Cutting:
    """Lets the events of an answer pass up to its cut, and makes its end say so."""

    def __init__(self, answering: Answering, cut: Cut) -> None:
        self._answering = answering
        self._cut = cut
        self._cutters: dict[int, _Cutter] = {}

    def pass_on(self, burst: Iterable[Numbered]) -> Iterator[Numbered]:
        for number, event in burst:
            cutter = self._cutters.setdefault(number, _Cutter(self._cut))
            if isinstance(event, Finish):
                yield number, replace(event, reason="length") if cutter.over else event
            elif not cutter.over:
                yield number, replace(event, text=cutter.pass_on(event.text))
                if cutter.over and self._answering.alone:
                    self._answering.cancel(number)
