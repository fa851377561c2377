"""Tokens of messages seen before: of a conversation that goes on only what is new is tokenised."""

from __future__ import annotations

import re
import threading
from array import array
from itertools import chain

from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Token

SHORT = 8192
"""Characters of a text that is tokenised as fast as it is looked up."""
_BESIDE = 256
"""What remembering a text takes beside the text, in characters: many short ones must not add up unseen."""


class KnownTexts:
    """Remembers parts of texts, from one end of a message to the next, each for its owner alone."""

    def __init__(self, vocabulary: Vocabulary, max_characters: int = 8 << 20, short: int = SHORT) -> None:
        self.n_characters = 0
        """Of all texts that are remembered, and what each takes beside."""
        self.n_tokenized = 0
        """Of all parts that had to be tokenised."""
        self._vocabulary = vocabulary
        self._max_characters = max_characters
        self._short = short
        self._known: dict[tuple[str, bool, str], array[int]] = {}
        """By owner, whether the text begins with it, and text; the one used last at the end."""
        self._turn = threading.Lock()
        self._cuts: re.Pattern[str] | None = None

    def tokenize(self, text: str, owner: str) -> list[Token]:
        """The tokens of a rendered prompt; a template that writes the first token itself does not get it twice."""
        first = self._vocabulary.bos
        add_special = first is None or not text.encode("utf-8", "replace").startswith(self._vocabulary.piece(first))
        if len(text) < self._short:
            return self._vocabulary.tokenize(text, add_special=add_special)
        beginning, *others = self._parts(text)
        parts = [self._part(owner, beginning, add_special), *(self._part(owner, part, False) for part in others)]
        return list(chain.from_iterable(parts))

    def _parts(self, text: str) -> list[str]:
        """The text, cut in front of everything that ends a message."""
        if self._cuts is None:
            ends = "|".join(map(re.escape, self._vocabulary.separators)) or "(?!)"
            self._cuts = re.compile(f"(?={ends})")
        return self._cuts.split(text)

    def _part(self, owner: str, text: str, add_special: bool) -> array[int]:
        key = owner, add_special, text
        with self._turn:
            found = self._known.pop(key, None)
            if found is not None:
                self._known[key] = found
                return found
        found = array("i", self._vocabulary.tokenize(text, add_special=add_special))
        with self._turn:
            self.n_tokenized += len(text)
            if len(text) + _BESIDE <= self._max_characters and key not in self._known:
                self._known[key] = found
                self.n_characters += len(text) + _BESIDE
            while self.n_characters > self._max_characters:
                oldest = next(iter(self._known))
                del self._known[oldest]
                self.n_characters -= len(oldest[2]) + _BESIDE
        return found
