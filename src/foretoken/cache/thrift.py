"""How much time may go into keeping states: a small share of the time that is spent computing."""

from __future__ import annotations

SHARE = 0.02
"""Of the engine's time, at most."""
_MOST_MS = 20.0
"""That may be saved up."""
_NEWEST = 0.2
"""Weight of the latest measurement."""


class Thrift:
    """Knows what a token and a kept byte cost, and how much of the time saving has taken."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._balance_ms = 0.0
        self.copied_ms = 0.0
        """Spent on copies in all."""
        self.token_ms: float | None = None
        """Reading one token of a prompt."""
        self.byte_ms: float | None = None
        """Copying one byte to the host."""

    def computed(self, n_rows: int, ms: float, reading: bool) -> None:
        """A batch took this long: a share of it may be spent."""
        # What is not spent does not pile up: a rush of saves would be felt all the same.
        self._balance_ms = min(self._balance_ms + ms * self._share, _MOST_MS)
        if reading and n_rows:
            self.token_ms = _smoothed(self.token_ms, ms / n_rows)

    def copied(self, n_bytes: int, ms: float) -> None:
        self._balance_ms -= ms
        self.copied_ms += ms
        if n_bytes:
            self.byte_ms = _smoothed(self.byte_ms, ms / n_bytes)

    @property
    def affordable(self) -> bool:
        """Whether there is no debt; one save may make one, and the next waits until it is paid."""
        return self._balance_ms >= 0

    def pays(self, n_tokens: int, n_bytes: int, factor: float) -> bool:
        """Whether reading these tokens again takes `factor` times as long as copying the bytes."""
        if self.token_ms is None or self.byte_ms is None:
            return True
        return n_tokens * self.token_ms >= factor * n_bytes * self.byte_ms

    def spacing(self, n_bytes: int) -> int:
        """Tokens that must lie between two saves so that they stay within the share."""
        if self.token_ms is None or self.byte_ms is None:
            return 0
        return int(n_bytes * self.byte_ms / (self._share * self.token_ms))


def _smoothed(old: float | None, new: float) -> float:
    return new if old is None else old + _NEWEST * (new - old)
