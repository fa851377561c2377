"""From token bytes to text that is safe to show: whole characters, nothing past a stop string."""

from __future__ import annotations

import codecs


class TextStream:
    """Takes the bytes of one token at a time; gives back text that can no longer change."""

    def __init__(self, stops: tuple[str, ...] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stops = stops
        self._held = ""
        self.stopped_by: str | None = None

    def push(self, piece: bytes) -> str:
        """Text released by this token; after a stop string nothing more comes."""
        text = self._decoder.decode(piece)
        return self._release(text) if self._stops else text

    def finish(self) -> str:
        """What is left at the end: a held back beginning of a stop string, a cut character as U+FFFD."""
        text = self._release(self._decoder.decode(b"", final=True))
        held, self._held = self._held, ""
        return text + ("" if self.stopped_by else held)

    def _release(self, text: str) -> str:
        if self.stopped_by is not None:
            return ""
        self._held += text
        found = [(at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:
            at, self.stopped_by = min(found)
            out, self._held = self._held[:at], ""
            return out
        keep = self._n_undecided()
        out, self._held = self._held[: len(self._held) - keep], self._held[len(self._held) - keep :]
        return out

    def _n_undecided(self) -> int:
        """The length of the longest tail that a stop string could begin with."""
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        for n in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-n:]) for stop in self._stops):
                return n
        return 0
