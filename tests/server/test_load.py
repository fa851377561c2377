"""Many clients at once, half of them leaving in the middle: nothing leaks, nothing mixes.

FORETOKEN_SLOW=1 runs 1,000 clients instead of some.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path

import httpx
import pytest

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.types import Request, SamplingParams
from tests.server.running import RunningServer, running, wait_until

SLOW = bool(os.environ.get("FORETOKEN_SLOW"))
N_CLIENTS = 1000 if SLOW else 80
N_ROUNDS = 8 if SLOW else 2
MAX_GROWTH = (1 << 20) if SLOW else (8 << 20)
"""Bytes from the middle of the rounds to their end."""
N_PROMPTS = 25
N_TOKENS = 40


def asked(number: int) -> tuple[str, SamplingParams]:
    """Every fifth prompt is sampled, the others are greedy; some share a beginning."""
    prompt = f"The river {'runs and runs ' * (number % 3)}number {number}"
    return prompt, SamplingParams(temperature=0.9 if number % 5 == 0 else 0, seed=number)


async def stay(client: httpx.AsyncClient, number: int) -> str:
    prompt, sampling = asked(number)
    body = {"prompt": prompt, "max_tokens": N_TOKENS, "stream": True, "temperature": sampling.temperature,
            "seed": sampling.seed}  # fmt: skip
    text, done = "", False
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                text += "".join(choice["text"] for choice in json.loads(line[6:])["choices"])
    assert done
    return text


async def leave(client: httpx.AsyncClient, number: int, after: float) -> None:
    try:
        async with asyncio.timeout(after):
            await stay(client, number)
    except TimeoutError:
        pass


async def crowd(url: str, seed: int) -> dict[int, list[str]]:
    rng = random.Random(seed)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
    heard: dict[int, list[str]] = {}

    async def one(client: httpx.AsyncClient, who: int) -> None:
        number = rng.randrange(N_PROMPTS)
        await asyncio.sleep(rng.random() * 0.5)
        if who % 2:
            return await leave(client, number, rng.random() * 0.5)
        heard.setdefault(number, []).append(await stay(client, number))
        return None

    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as client:
        await asyncio.gather(*(one(client, who) for who in range(N_CLIENTS)))
    return heard


def resident(pid: int) -> int:
    """Bytes of memory a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def check_round(server: RunningServer, expected: dict[int, str], seed: int) -> None:
    heard = asyncio.run(crowd(server.url, seed))
    assert sum(map(len, heard.values())) == N_CLIENTS / 2
    for number, texts in heard.items():
        assert set(texts) == {expected[number]}, f"prompt {number} was answered differently"
    wait_until(server.idle, "every slot to be free", 10)
    assert server.worker.n_restarts == 0


@pytest.mark.timeout(1800 if SLOW else 120)
def test_a_crowd(model_path: Path) -> None:
    config = EngineConfig(ModelConfig(model_path), n_parallel=4, n_ctx=256, n_threads=1)
    with Engine.from_config(config) as engine:
        requests = {number: asked(number) for number in range(N_PROMPTS)}
        expected = {
            number: engine.complete(Request(prompt, sampling, max_tokens=N_TOKENS))
            for number, (prompt, sampling) in requests.items()
        }
    room = {"n_parallel": 4, "n_ctx": 256, "max_queue": 2 * N_CLIENTS}
    with running(model_path, check_integrity=True, **room) as server:
        held = []
        for number in range(N_ROUNDS):
            check_round(server, expected, number)
            held.append(resident(server.worker.pid))
        # What drafters keep of answers fills up in the first rounds, and so do the allocator's arenas.
        assert held[-1] - held[N_ROUNDS // 2] < MAX_GROWTH, f"bytes after each round: {held}"
