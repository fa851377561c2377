"""Any OpenAI-compatible server, asked the same things and timed by its own clock where it shows one."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import httpx

from foretoken.bench.answers import Answer, at_once
from foretoken.bench.cases import Case
from foretoken.errors import ForetokenError

_EXTRAS = {"cache_prompt": False, "stream_options": {"include_usage": True}}
"""What llama-server and most others understand; left out for servers that refuse it."""
_NOT_THERE = (404, 405, 501)
_REFUSED = (400, 422)


class Server:
    """A server behind a URL; rendered prompts go to /v1/completions, so that every server reads the same tokens."""

    def __init__(
        self,
        url: str,
        label: str = "",
        *,
        templates: bool = False,
        key: str | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        base = url.rstrip("/").removesuffix("/v1")
        self.url = base
        self.label = label or base.split("://")[-1]
        self._templates = templates
        """Whether the server puts chats into its own template."""
        self._extras: dict[str, Any] = dict(_EXTRAS)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # Between two turns of one server others have theirs: it may have closed a connection that was kept.
        alone = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=base, timeout=600.0, headers=headers, transport=transport, limits=alone)
        self._model = self._first_model()

    def ask(self, cases: Sequence[Case]) -> list[Answer]:
        """All answers, asked for at once."""
        return at_once([partial(self._ask, case) for case in cases])

    def close(self) -> None:
        self._client.close()

    def _first_model(self) -> str:
        """The name to ask by; servers of one model rarely mind, but some do."""
        try:
            listed = self._client.get("/v1/models").json()
            return str(listed["data"][0]["id"])
        except httpx.TransportError as error:
            raise ForetokenError(f"{self.url} does not answer: {error}") from error
        except (ValueError, KeyError, IndexError, TypeError):
            return "default"

    def _ask(self, case: Case) -> Answer:
        """Ask; a server that lacks an endpoint or refuses a field is asked once more in a way it knows."""
        chat, extras = self._templates and bool(case.messages), self._extras
        try:
            return self._try(case, chat, extras)
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            if status in _NOT_THERE and case.messages and not chat:
                self._templates = True
            elif status in _REFUSED and extras:
                self._extras = {}
            else:
                raise ForetokenError(f"{self.label}: {status} for {case.label}: {error.response.text[:200]}") from error
            return self._ask(case)
        except (httpx.HTTPError, ValueError) as error:
            raise ForetokenError(f"{self.label}: {case.label}: {error or type(error).__name__}") from error

    def _try(self, case: Case, chat: bool, extras: dict[str, Any]) -> Answer:
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": case.max_tokens,
            "temperature": case.sampling.temperature,
            "seed": case.sampling.seed,
            "stream": True,
            **extras,
            **({"messages": list(case.messages)} if chat else {"prompt": case.prompt}),
        }
        path = "/v1/chat/completions" if chat else "/v1/completions"
        with self._client.stream("POST", path, json=body) as response:
            if response.status_code >= 400:
                response.read()
                response.raise_for_status()
            return _collect(_events(response))


def _events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        data = line.removeprefix("data:").strip()
        if line.startswith("data:") and data != "[DONE]":
            event = json.loads(data)
            if "error" in event:
                raise ValueError(f"the server says {event['error']}")
            yield event


def _collect(events: Iterator[dict[str, Any]]) -> Answer:
    """Put an answer together; times and counts are the server's own where it tells them."""
    text: list[str] = []
    times: list[float] = []
    usage: dict[str, Any] = {}
    timings: dict[str, Any] = {}
    for event in events:
        usage = event.get("usage") or usage
        timings = event.get("timings") or timings
        for choice in event.get("choices") or ():
            delta = choice.get("delta") or {}
            piece = choice.get("text") or delta.get("content") or delta.get("reasoning_content") or ""
            if piece:
                text.append(piece)
                times.append(time.perf_counter())
    n_tokens = int(timings.get("predicted_n") or usage.get("completion_tokens") or len(times))
    wall = (times[-1] - times[0]) * 1e3 if times else 0.0
    ms = float(timings.get("predicted_ms") or wall)
    return Answer("".join(text), n_tokens, ms, _marks(times, n_tokens))


def _marks(times: Sequence[float], n_tokens: int) -> tuple[tuple[float, int], ...]:
    """Share the tokens out over the chunks that came: servers send one, or several in one."""
    bounds = [round(n_tokens * i / max(1, len(times))) for i in range(len(times) + 1)]
    return tuple((at, bounds[i + 1] - bounds[i]) for i, at in enumerate(times))
