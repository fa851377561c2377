"""`foretoken top`: a running server, watched from a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.live import Live
from typer import Option

from foretoken.cli import options
from foretoken.cli.top_view import History, view
from foretoken.errors import ForetokenError

Url = Annotated[str, typer.Argument(help="Where the server listens.")]
ApiKey = Annotated[
    str | None, Option(help="The server's key.", envvar=["FORETOKEN_API_KEY", "LLAMA_API_KEY"], show_default=False)
]
Once = Annotated[bool, Option("--once", help="Look for a second, print it, end.")]

_TIMEOUT = httpx.Timeout(5.0, read=15.0)


class CannotWatch(ForetokenError):
    """The server cannot be watched; the message says why."""


def top(
    url: Url = "http://127.0.0.1:8080", api_key: ApiKey = None, once: Once = False, as_json: options.Json = False
) -> None:
    """Watch a server: slots, tokens per second, drafters, what they saved, what steps cost.

    Ctrl-C ends it. With --json every look is one line; with --once there is only one.
    """
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    base = url.rstrip("/") if "://" in url else f"http://{url.rstrip('/')}"
    with httpx.Client(base_url=base, headers=headers, timeout=_TIMEOUT) as client:
        looks = _looks(client)
        if once or as_json:
            _print(looks, once, as_json)
        else:
            _watch(client, looks)


def _looks(client: httpx.Client) -> Iterator[dict[str, Any]]:
    """What the server says, every second, until it stops."""
    try:
        with client.stream("GET", "/live/stream") as answer:
            if answer.status_code != 200:
                raise CannotWatch(_refusal(answer))
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line[6:])
    except httpx.TransportError as error:
        raise CannotWatch(f"cannot watch {client.base_url}: {error or type(error).__name__}") from None


def _refusal(answer: httpx.Response) -> str:
    if answer.status_code == 401:
        return "the server wants another key: give it with --api-key"
    if answer.status_code == 404:
        return f"{answer.url} is not there: is this a foretoken server?"
    answer.read()
    return f"the server answered {answer.status_code}: {answer.text[:200]}"


def _print(looks: Iterator[dict[str, Any]], once: bool, as_json: bool) -> None:
    console = Console()
    history = History()
    for look in looks:
        history.add(look)
        # The first look knows no rates.
        if once and look.get("rates") is None and look["state"] == "ready":
            continue
        if as_json:
            print(json.dumps(look), flush=True)
        else:
            console.print(view(history, look))
        if once:
            return


def _watch(client: httpx.Client, looks: Iterator[dict[str, Any]]) -> None:
    history = History()
    with Live(console=Console(), auto_refresh=False, screen=True) as live:
        try:
            while True:
                for look in looks:
                    history.add(look)
                    live.update(view(history, look), refresh=True)
                looks = _again(client, live)
        except KeyboardInterrupt:
            return


def _again(client: httpx.Client, live: Live) -> Iterator[dict[str, Any]]:
    """Wait for a server that went away."""
    while True:
        live.update(f"{client.base_url} went away; waiting for it …", refresh=True)
        time.sleep(1)
        try:
            client.get("/health")
        except httpx.TransportError:
            continue
        return _looks(client)
