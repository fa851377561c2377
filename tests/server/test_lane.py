"""The short way to the endpoints that are asked most behaves as the long one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from foretoken.server.gate import Gate
from foretoken.server.lane import Lane
from foretoken.server.settings import ServerSettings
from tests.server.running import TIMEOUT, RunningServer, running

ORIGIN = {"origin": "http://page.example"}
BODY = {"prompt": "x", "max_tokens": 2, "temperature": 0}


@pytest.fixture(scope="module")
def server(model_path: Path) -> Iterator[RunningServer]:
    settings = ServerSettings(grace=1, api_keys=("key",), cors_origins=(ORIGIN["origin"],))
    with running(model_path, settings) as started:
        yield started


def ask(server: RunningServer, method: str, path: str, body: object = None, key: str = "key") -> httpx.Response:
    headers = {**ORIGIN, "authorization": f"Bearer {key}"}
    return httpx.request(method, server.url + path, json=body, headers=headers, timeout=TIMEOUT)


def test_generating_endpoints_take_it(server: RunningServer) -> None:
    layer = server.server._http.config.app  # type: ignore[union-attr]
    while not isinstance(layer, Lane):
        assert not isinstance(layer, FastAPI)
        layer = layer._app if isinstance(layer, Gate) else layer.app
    paths = {path for _, path in layer._routes}
    assert {"/v1/completions", "/v1/chat/completions", "/completion", "/infill"} <= paths


def test_answers_and_refusals_are_the_same(server: RunningServer) -> None:
    good = ask(server, "POST", "/v1/completions", BODY)
    assert good.status_code == 200
    assert good.headers["access-control-allow-origin"] == ORIGIN["origin"]
    malformed = ask(server, "POST", "/v1/completions", {**BODY, "temperature": "hot"})
    assert malformed.status_code == 400
    assert "temperature" in malformed.json()["error"]["message"]
    assert malformed.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert ask(server, "POST", "/v1/completions", {**BODY, "prompt": [10**8]}).status_code == 400
    assert ask(server, "GET", "/v1/completions").status_code == 405
    assert ask(server, "POST", "/v1/completions", BODY, key="other").status_code == 401


def test_it_is_counted_by_its_route(server: RunningServer) -> None:
    ask(server, "POST", "/completion", {"prompt": "x", "n_predict": 1}).raise_for_status()
    assert 'foretoken:requests_total{path="/completion",status="200"}' in ask(server, "GET", "/metrics").text


def test_faults_are_told_and_logged(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a fault")

    service = server.server.service  # type: ignore[union-attr]
    monkeypatch.setattr(service, "request", broken)
    assert ask(server, "POST", "/v1/completions", BODY).status_code == 500
    assert "POST /v1/completions failed" in caplog.text
