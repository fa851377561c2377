"""A query and a document as one text, the way rerankers were trained on them."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.llama.vocabulary import Vocabulary
from foretoken.types import Token


def ranking_tokens(
    vocabulary: Vocabulary, template: str | None, query: str, documents: Sequence[str]
) -> list[list[Token]]:
    """One text for each document."""
    if template is not None:
        # Both at once: neither may bring a placeholder for the other.
        head, _, rest = template.partition("{query}")
        middle, _, tail = rest.partition("{document}")
        texts = [f"{head}{query}{middle}{one}{tail}" for one in documents]
        return [vocabulary.tokenize(text, add_special=False) for text in texts]
    first = [vocabulary.bos] if vocabulary.adds_bos else []
    end = [vocabulary.eos if vocabulary.eos is not None else vocabulary.separator] if vocabulary.adds_eos else []
    between = [*end, *([vocabulary.separator] if vocabulary.adds_separator else [])]
    asked = _plain(vocabulary, query)
    found = [[*first, *asked, *between, *_plain(vocabulary, one), *end] for one in documents]
    return [[token for token in tokens if token is not None] for tokens in found]


def _plain(vocabulary: Vocabulary, text: str) -> list[Token]:
    return vocabulary.tokenize(text, special=False, add_special=False)
