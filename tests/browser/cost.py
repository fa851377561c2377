"""What it costs the engine to be watched: python -m tests.browser.cost [MODEL.gguf [ROUNDS]] (make bench-page).

One client is answered all the time. Rounds take turns: nobody watches, one stream, ten streams, ten tabs of a real
browser with the live view open. What is compared is tokens per second of the same greedy answer within one round; the
median over the rounds and its spread are printed. Run it on a quiet machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import time
from collections.abc import AsyncIterator

import httpx
from playwright.async_api import async_playwright

from foretoken.cli.models import resolve
from tests.browser.conftest import ARGUMENTS, chromium
from tests.server.running import running

ROUNDS = 9
BODY = {
    "messages": [{"role": "user", "content": "Write a long story about a river."}],
    "temperature": 0, "max_tokens": 512, "ignore_eos": True, "cache_prompt": False, "speculative": {"type": "none"},
}  # fmt: skip


async def pace(client: httpx.AsyncClient) -> float:
    """Tokens per second of one answer, by the engine's own clock."""
    answer = await client.post("/v1/chat/completions", json=BODY)
    answer.raise_for_status()
    return float(answer.json()["timings"]["predicted_per_second"])


@contextlib.asynccontextmanager
async def streams(url: str, n: int) -> AsyncIterator[None]:
    """So many clients of /live/stream."""

    async def read() -> None:
        async with httpx.AsyncClient(timeout=None) as client, client.stream("GET", f"{url}/live/stream") as answer:
            async for _ in answer.aiter_bytes():
                pass

    tasks = [asyncio.create_task(read()) for _ in range(n)]
    await asyncio.sleep(1.5 if n else 0)
    yield
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def measure(url: str, n_rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {"nobody": [], "1 stream": [], "10 streams": [], "10 tabs": []}
    async with httpx.AsyncClient(base_url=url, timeout=600) as client, async_playwright() as playwright:
        await pace(client)
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for _ in range(n_rounds):
            for name, n in (("nobody", 0), ("1 stream", 1), ("10 streams", 10)):
                async with streams(url, n):
                    found[name].append(await pace(client))
            context = await browser.new_context()
            for _ in range(10):
                page = await context.new_page()
                await page.goto(f"{url}/#live")
            await asyncio.sleep(1.5)
            found["10 tabs"].append(await pace(client))
            await context.close()
        await browser.close()
    return found


def main() -> None:
    model = resolve(sys.argv[1] if len(sys.argv) > 1 else None)
    n_rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    began = time.monotonic()
    # One thread: the browser draws on the other core, as it would on the machine of whoever watches.
    with running(model, n_ctx=2048, n_threads=1) as server:
        found = asyncio.run(measure(server.url, n_rounds))
    print(f"{model.name}, {n_rounds} rounds, {time.monotonic() - began:.0f} s\n")
    print("| watched by | tokens/s | against nobody | spread of the rounds |")
    print("|---|---|---|---|")
    for name, values in found.items():
        ratios = [value / plain for value, plain in zip(values, found["nobody"], strict=True)]
        spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
        print(f"| {name} | {statistics.median(values):.1f} | {statistics.median(ratios):.4f} | {spread} |")


if __name__ == "__main__":
    main()
