"""Texts to vectors: a loaded model beside its generating context, or an encoder that has no other use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foretoken.config import DEFAULT_CONTEXT, EngineConfig, Pooling
from foretoken.engine.assembly import is_exact
from foretoken.errors import ConfigError
from foretoken.llama.embedding import POOLING, EmbeddingContext, Vectors
from foretoken.llama.model import Model
from foretoken.types import Token

_RANK = "rank"
_TOGETHER = 16
"""Texts computed at once at most."""


class Embedder:
    """Whoever calls it sees to it that nothing else computes meanwhile."""

    def __init__(self, model: Model, config: EngineConfig) -> None:
        pooling = _pooling(model, config)
        limit = min(config.n_ctx or DEFAULT_CONTEXT, model.n_ctx_train or DEFAULT_CONTEXT)
        self.model = model
        # Beside others a text has slightly other numbers; and states are computed for texts of equal length only.
        n_together = 1 if is_exact(config) or model.recurrent else _TOGETHER
        self._context = EmbeddingContext(model, pooling, limit, config.n_ubatch, config.n_threads, n_together)

    @property
    def pooling(self) -> Pooling:
        return self._context.pooling

    @property
    def n_max(self) -> int:
        """Tokens of the longest text."""
        return self._context.n_max

    @property
    def n_out(self) -> int:
        """Numbers of one vector."""
        return self._context.n_out

    def describe(self) -> str:
        """What it does, in one line."""
        what = "scores of documents" if self.pooling == _RANK else f"{self.n_out} numbers"
        return f"{self.model.name}, {what} for up to {self.n_max} tokens, pooling {self.pooling}"

    def batches(self, texts: Sequence[Sequence[Token]]) -> Iterator[range]:
        """Neighbours that fit into one computation."""
        start = n_rows = 0
        for number, tokens in enumerate(texts):
            full = number - start == self._context.n_together or n_rows + len(tokens) > self.n_max
            if full and number > start:
                yield range(start, number)
                start, n_rows = number, 0
            n_rows += len(tokens)
        if start < len(texts):
            yield range(start, len(texts))

    def embed(self, texts: Sequence[Sequence[Token]]) -> list[Vectors]:
        """The vectors of one batch."""
        return self._context.embed(texts)

    def close(self) -> None:
        self._context.close()


def _pooling(model: Model, config: EngineConfig) -> Pooling:
    """The model's own way to pool, unless another was asked for."""
    number = model.metadata(f"{model.architecture}.pooling_type")
    own = POOLING[int(number)] if number is not None and int(number) in range(len(POOLING)) else None
    wish = config.pooling
    ranks = own == _RANK or (own is None and not model.generates)
    if wish == _RANK and not ranks:
        raise ConfigError(f"{model.path.name} was not made to rank; --pooling rank needs a reranker")
    if wish != "auto":
        return wish
    if own is not None:
        return own
    # The last token of a text has seen all of it; in an encoder every one has.
    return "last" if model.generates else "mean"
