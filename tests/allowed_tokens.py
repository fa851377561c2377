"""Some tokens and no others, as a grammar would allow them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from foretoken.types import Token


class Only:
    """Allows these tokens."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self.tokens: NDArray[np.intp] = np.sort(np.array(list(tokens), np.intp))

        self.n_most = len(self.tokens)

    def allows(self, token: Token) -> bool:
        return token in self.tokens

    def holds(self, tokens: NDArray[np.intp]) -> NDArray[np.bool_]:
        return np.isin(tokens, self.tokens)
