"""An answer in the terminal, coloured by who said each token."""

from __future__ import annotations

import codecs
from collections import Counter, deque

from rich.style import Style

from foretoken.types import MODEL, Chunk

_STYLES = tuple(
    Style.parse(text)
    for text in (
        "bright_blue underline",
        "yellow italic underline",
        "green bold",
        "magenta italic",
        "cyan bold underline",
    )
)
"""Colour and shape: either is enough to tell two drafters apart."""


def style_of(number: int) -> Style:
    return _STYLES[number % len(_STYLES)]


class Painter:
    """Paints the text of a stream; what is held back for a stop string waits here with its colours."""

    def __init__(self, silent: frozenset[int]) -> None:
        self._silent = silent
        """Tokens that have no text: they end answers."""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: deque[tuple[str, str]] = deque()
        self._styles: dict[str, Style] = {MODEL: Style.null()}
        self._n_tokens: Counter[str] = Counter()

    def paint(self, chunk: Chunk) -> str:
        """The chunk's text with the colours of its tokens."""
        for token in chunk.tokens:
            self._n_tokens[token.origin] += 1
            self._styles.setdefault(token.origin, style_of(len(self._styles) - 1))
            if token.id not in self._silent:
                self._waiting.append((self._decoder.decode(token.piece), token.origin))
        return "".join(self._styles[origin].render(visible(text)) for text, origin in self._take(len(chunk.text)))

    def _take(self, n: int) -> list[tuple[str, str]]:
        found = []
        while n > 0 and self._waiting:
            text, origin = self._waiting.popleft()
            if len(text) > n:
                self._waiting.appendleft((text[n:], origin))
            found.append((text[:n], origin))
            n -= len(text)
        return [*found, ("\ufffd", MODEL)] if n > 0 else found

    def legend(self) -> str:
        """What the colours mean, with how much each said."""
        ordered = sorted(self._n_tokens.items(), key=lambda item: item[0] != MODEL)
        return "tokens: " + ", ".join(f"{n} {self._words(origin)}" for origin, n in ordered)

    def _words(self, origin: str) -> str:
        return "thought by the model" if origin == MODEL else f"guessed by {self._styles[origin].render(origin)}"


def visible(text: str) -> str:
    """Codes that would move the cursor or change the terminal, shown instead of obeyed."""
    return "".join(
        chr(0x2400 + ord(c)) if c < " " and c not in "\n\t\r" else "\u2421" if c == "\x7f" else c for c in text
    )
