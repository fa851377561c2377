"""The best token, straight from the row: what a chain of bias and greedy samplers would choose."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from foretoken.backend import Among
from foretoken.llama.rows import Rows
from foretoken.types import SamplingParams, Token


class GreedySampler:
    """Takes the first largest logit; a chain in C would copy the whole vocabulary for it."""

    def __init__(self, rows: Rows, params: SamplingParams) -> None:
        bias = params.biases
        self._rows = rows
        self._biased = np.array(list(bias), np.intp)
        self._bias = np.array(list(bias.values()), np.float32)

    @staticmethod
    def serves(params: SamplingParams) -> bool:
        """Whether nothing but biases comes before the choice."""
        return params.greedy and not (params.dry_multiplier or params.penalises or params.infill)

    def sample(self, row: int, among: Among | None = None) -> Token:
        best = self._best(row)
        if among is None or among.allows(best):
            return best
        return self._best_of(self._rows.logits(row), among.tokens)

    def _best(self, row: int) -> Token:
        if not len(self._biased):
            return self._rows.best(row)
        logits = self._rows.logits(row)
        # In place and back again: the row belongs to the library, and logprobs are read from it.
        original = logits[self._biased]
        logits[self._biased] = original + self._bias
        best = int(logits.argmax())
        logits[self._biased] = original
        return best

    def _best_of(self, logits: NDArray[np.float32], among: NDArray[np.intp]) -> Token:
        found = logits.take(among)
        for token, bias in zip(self._biased, self._bias, strict=True):
            found[among == token] += bias
        return int(among[found.argmax()])

    def close(self) -> None:
        pass
