"""What every turn of a session costs a server: prompt tokens that were computed, and the time to the first token."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from foretoken.bench.agent_session import Session, Turn
from foretoken.bench.serving import Served
from foretoken.bench.wire import Address
from foretoken.errors import ForetokenError

_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class TurnCost:
    """One turn on one server."""

    title: str
    n_prompt: int
    n_new: int
    """Tokens that no earlier request of the session began with."""
    n_processed: int
    """Prompt tokens that the server computed."""
    first_ms: float

    @property
    def n_again(self) -> int:
        """Tokens computed although they had been before."""
        return self.n_processed - self.n_new


def measure(
    servers: Sequence[Served], session: Session, n_predict: int, say: Callable[[str], None]
) -> dict[str, list[TurnCost]]:
    """The whole session on each server, one after another."""
    found = {}
    for server in servers:
        with server.started() as address, client_of(address) as client:
            prompts = [_tokens(client, session, turn) for turn in session.turns]
            costs = []
            for number, turn in enumerate(session.turns):
                say(f"{server.label}: {turn.title}")
                new = len(prompts[number]) - max((_shared(prompts[number], p) for p in prompts[:number]), default=0)
                costs.append(ask(client, session, turn, max(1, new), n_predict))
            found[server.label] = costs
    return found


def client_of(address: Address) -> httpx.Client:
    """Who asks a server."""
    # A connection per request: servers close idle ones whenever they like.
    url, alone = f"http://{address.host}:{address.port}", httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=url, timeout=_SECONDS, limits=alone)


def _tokens(client: httpx.Client, session: Session, turn: Turn) -> list[int]:
    body = {"messages": list(turn.messages), "tools": list(session.tools)}
    prompt = _json(client.post("/apply-template", json=body))["prompt"]
    asked = {"content": prompt, "add_special": True, "parse_special": True}
    tokens: list[int] = _json(client.post("/tokenize", json=asked))["tokens"]
    return tokens


def ask(client: httpx.Client, session: Session, turn: Turn, n_new: int, n_predict: int) -> TurnCost:
    """One request of a session, and what it took."""
    body = {
        "messages": list(turn.messages), "tools": list(session.tools), "max_tokens": n_predict, "temperature": 0,
        "stream": True, "cache_prompt": True, "timings_per_token": False,
    }  # fmt: skip
    started = time.perf_counter()
    first: float | None = None
    timings: dict[str, Any] | None = None
    with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        if answer.status_code != 200:
            answer.read()
            raise ForetokenError(f"the server refuses turn {turn.title!r}: {answer.text[:300]}")
        for line in answer.iter_lines():
            if not line.startswith("data: {"):
                continue
            event = json.loads(line.removeprefix("data: "))
            if first is None and any(_says(choice["delta"]) for choice in event.get("choices", ())):
                first = time.perf_counter()
            timings = event.get("timings", timings)
    if timings is None:
        raise ForetokenError("the server does not say what it computed (no timings in its stream)")
    ended = first if first is not None else time.perf_counter()
    n_processed, n_cached = int(timings["prompt_n"]), int(timings["cache_n"])
    return TurnCost(turn.title, n_processed + n_cached, n_new, n_processed, (ended - started) * 1e3)


def _says(delta: dict[str, Any]) -> bool:
    return any(delta.get(key) for key in ("content", "reasoning_content", "tool_calls"))


def _json(answer: httpx.Response) -> Any:
    if answer.status_code != 200:
        raise ForetokenError(f"{answer.request.url}: {answer.text[:300]}")
    return answer.json()


def _shared(a: list[int], b: list[int]) -> int:
    limit = min(len(a), len(b))
    return next((i for i in range(limit) if a[i] != b[i]), limit)
