"""A contestant that answers at once and always the same."""

from __future__ import annotations

import time
from collections.abc import Sequence

from foretoken.bench.answers import Answer
from foretoken.bench.cases import Case


class EchoServer:
    """Stands in for another server."""

    label = "echo"

    def ask(self, cases: Sequence[Case]) -> list[Answer]:
        now = time.perf_counter()
        return [Answer("echo", 9, 10.0, ((now, 1), (now + 0.01, 8))) for _ in cases]
