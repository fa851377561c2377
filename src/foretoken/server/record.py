"""What is remembered of one HTTP request until its log line is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from foretoken.types import Finish, Usage


@dataclass(slots=True)
class Record:
    """One request: whose, which, and what its answers cost."""

    id: str
    method: str
    path: str
    owner: str = ""
    status: int = 0
    started: float = field(default_factory=time.perf_counter)
    first_token: float | None = None
    finishes: list[Finish] = field(default_factory=list)
    prompt: str | None = None
    """Only kept when the operator wants prompts in the log."""

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self.started

    @property
    def usage(self) -> Usage | None:
        """The cost of the longest answer: several choices run side by side."""
        usages = [finish.usage for finish in self.finishes]
        return max(usages, key=lambda usage: usage.generation_ms, default=None)

    def line(self) -> str:
        """The request in one line, in the words of llama.cpp's server."""
        parts = [f"{self.method} {self.path} {self.status}"]
        usage = self.usage
        if usage is not None:
            n_read = usage.prompt_tokens - usage.cached_tokens
            n_total = n_read + usage.completion_tokens
            parts += [
                f"prompt eval time = {pace(usage.prompt_ms, n_read)}",
                f"eval time = {pace(usage.generation_ms, usage.completion_tokens)}",
                f"total time = {self.seconds * 1e3:.2f} ms / {n_total} tokens",
            ]
            if usage.drafted:
                rate = usage.accepted / usage.drafted
                parts.append(
                    f"draft acceptance rate = {rate:.5f} ({usage.accepted} accepted / {usage.drafted} generated)"
                )
            parts.append("stop: " + ", ".join(sorted({finish.reason for finish in self.finishes})))
        else:
            parts.append(f"total time = {self.seconds * 1e3:.2f} ms")
        if self.prompt is not None:
            parts.append(f"prompt: {self.prompt!r}")
        return " | ".join(parts)

    def fields(self) -> dict[str, Any]:
        """The same for machines."""
        usage = self.usage
        found = {"method": self.method, "path": self.path, "status": self.status, "ms": self.seconds * 1e3}
        if self.prompt is not None:
            found["prompt"] = self.prompt
        if usage is None:
            return found
        return {
            **found,
            "queue_ms": usage.queue_ms,
            "prompt_n": usage.prompt_tokens - usage.cached_tokens,
            "cache_n": usage.cached_tokens,
            "prompt_ms": usage.prompt_ms,
            "predicted_n": sum(finish.usage.completion_tokens for finish in self.finishes),
            "predicted_ms": usage.generation_ms,
            "draft_n": sum(finish.usage.drafted for finish in self.finishes),
            "draft_n_accepted": sum(finish.usage.accepted for finish in self.finishes),
            "stop": [finish.reason for finish in self.finishes],
        }


def pace(ms: float, n: int) -> str:
    """Milliseconds and tokens as llama.cpp prints them."""
    per_token, per_second = (ms / n, n / ms * 1e3) if n and ms else (0.0, 0.0)
    return f"{ms:.2f} ms / {n} tokens ({per_token:.2f} ms per token, {per_second:.2f} tokens per second)"
