"""Whether the model itself was sure of what it said lately: where it was not, nobody can foresee it."""

from __future__ import annotations

ENOUGH = 8
"""Tokens in a row that it must have been sure of."""
_SURE = 0.95
_FIRST_WAIT, _LONGER = 8, 4
"""Tokens until the next look where it was not sure, and how many times as many each time after that."""


class Certainty:
    """Listens to one answer: token by token as long as the model is sure, now and then where it is not."""

    def __init__(self) -> None:
        self.n_sure = 0
        self._wait = _FIRST_WAIT
        self.listens_at = 0
        """How long the answer must be for the next token to be worth a look."""

    @property
    def enough(self) -> bool:
        return self.n_sure >= ENOUGH

    def hear(self, p: float, n_said: int) -> None:
        """The model was so sure of the token that it said last."""
        if p >= _SURE:
            self.n_sure += 1
        else:
            self.begin_again(n_said + self._wait)
            self._wait *= _LONGER

    def begin_again(self, n_said: int) -> None:
        """Count from there on."""
        self.n_sure, self.listens_at = 0, n_said
