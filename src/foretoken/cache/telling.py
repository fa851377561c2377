"""Says in the log, once in a while, how much is kept where."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

log = logging.getLogger("foretoken.cache")

_SECONDS = 60.0


class Telling:
    """Remembers when it last spoke, and of what: nothing new is nothing to say."""

    def __init__(self) -> None:
        self._at = 0.0
        self._told: Mapping[str, float] = {}

    @property
    def due(self) -> bool:
        return time.monotonic() - self._at >= _SECONDS

    def tell(self, counters: Mapping[str, float]) -> None:
        if counters == self._told:
            return
        self._at, self._told = time.monotonic(), counters
        places = [place for place in ("host", "disk") if f"{place}_states" in counters]
        log.info("kept: %s", ", ".join(_held(counters, place) for place in places))


def _held(counters: Mapping[str, float], place: str) -> str:
    held, budget = counters[f"{place}_bytes"] / 2**20, counters[f"{place}_budget_bytes"] / 2**20
    return f"{int(counters[f'{place}_states'])} states in {held:.1f} of {budget:.0f} MiB on the {place}"
