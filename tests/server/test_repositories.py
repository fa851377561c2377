"""-hf against a hub of our own, with the real huggingface_hub between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from foretoken.cli.repositories import choose_file
from foretoken.errors import ConfigError
from tests.server.running import TIMEOUT
from tests.server.test_serve_command import SMALL, serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
REPOSITORY = "someone/tiny-GGUF"


class Hub(ThreadingHTTPServer):
    """The part of Hugging Face that fetching a file needs."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files
        self.sent: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = self.path.split("?")[0]
        if "/gated/" in path:
            return self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "ask"})
        if REPOSITORY not in path:
            return self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        if path.startswith("/api/models/"):
            listed = [
                {"type": "file", "path": name, "size": len(data), "oid": "0" * 40, "rfilename": name}
                for name, data in self.server.files.items()
            ]
            info = {"id": REPOSITORY, "modelId": REPOSITORY, "sha": COMMIT, "siblings": listed, "private": False}
            return self._send(200, json.dumps(listed if "/tree/" in path else info).encode(), {})
        name = path.rsplit("/", 1)[-1]
        return self._send(200, self.server.files[name], {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, data: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "GET":
            self.server.sent.append(self.path)
            self.wfile.write(data)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(model_path: Path) -> Iterator[Hub]:
    files = {"tiny-Q8_0.gguf": model_path.read_bytes(), "tiny-Q2_K.gguf": b"not this one", "README.md": b"# tiny"}
    hub = Hub(files)
    thread = threading.Thread(target=hub.serve_forever)
    thread.start()
    yield hub
    hub.shutdown()
    hub.server_close()
    thread.join()


@pytest.fixture
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    return {
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path / "home"),
        "FORETOKEN_CACHE": str(tmp_path / "cache"),
        "HF_HUB_DISABLE_XET": "1",
        # Bars are for terminals; this makes huggingface_hub show them here too.
        "TQDM_POSITION": "-1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }


ASK = """
import sys
from pathlib import Path
from foretoken.cli.repositories import fetch_repository
from foretoken.errors import ConfigError

for name in sys.argv[2:]:
    try:
        print(fetch_repository(name, Path(sys.argv[1])))
    except ConfigError as error:
        print(error)
"""


def answers(environment: dict[str, str], *repositories: str) -> list[str]:
    """What is said when these are asked for, by a process of its own: huggingface_hub reads its settings once."""
    command = [sys.executable, "-c", ASK, environment["FORETOKEN_CACHE"], *repositories]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=TIMEOUT, check=True)
    return done.stdout.splitlines()


def test_a_model_is_fetched_with_a_bar_served_and_not_fetched_again(
    hub: Hub, environment: dict[str, str], tmp_path: Path
) -> None:
    with serving("-hf", f"{REPOSITORY}:q8_0", *SMALL, "--spec-type", "none", **environment) as server:
        answer = httpx.post(f"{server.url}/completion", json={"prompt": "x", "n_predict": 2}, timeout=TIMEOUT)
        assert answer.status_code == 200
    said = "".join(server.lines)
    assert "tiny-Q8_0.gguf" in said
    assert "100%" in said
    (path,) = (tmp_path / "cache").rglob("*.gguf")
    assert path.read_bytes() == hub.files["tiny-Q8_0.gguf"]
    n_downloads = sum("/resolve/" in one for one in hub.sent)
    assert n_downloads == 1
    listed = subprocess.run(
        [sys.executable, "-m", "foretoken", "models", "--json"], env={**os.environ, **environment},
        capture_output=True, text=True, timeout=TIMEOUT,
    )  # fmt: skip
    assert str(path) in [one["path"] for one in json.loads(listed.stdout)]

    hub.shutdown()
    offline = {**environment, "HF_HUB_OFFLINE": "1"}
    with serving("-hf", REPOSITORY, *SMALL, "--spec-type", "none", **offline) as server:
        assert httpx.get(f"{server.url}/v1/models", timeout=TIMEOUT).json()["data"][0]["id"] == "tiny-Q8_0.gguf"


def test_what_cannot_be_fetched_is_one_line_that_says_why(hub: Hub, environment: dict[str, str]) -> None:
    said = answers(environment, "someone/none", "gated/model", f"{REPOSITORY}:q5_k_m", "a/b/c")
    reasons = [
        "there is no repository someone/none, or it is private",
        "accept its terms",
        "there is tiny-Q8_0, tiny-Q2_K",
        "a repository is named user/repo",
    ]
    assert [reason for reason, line in zip(reasons, said, strict=True) if reason not in line] == []
    nowhere = {**environment, "HF_ENDPOINT": "http://127.0.0.1:9"}
    (line,) = answers(nowhere, REPOSITORY)
    assert "the hub cannot be reached" in line


def test_the_file_of_a_repository() -> None:
    files = ["m-Q8_0.gguf", "m-Q4_K_M.gguf", "mmproj-Q8_0.gguf", "m-F16-00001-of-00002.gguf"]
    assert choose_file(files, "", "u/r") == "m-Q4_K_M.gguf"
    assert choose_file(files, "q8_0", "u/r") == "m-Q8_0.gguf"
    assert choose_file(["only.gguf"], "", "u/r") == "only.gguf"
    with pytest.raises(ConfigError, match="m-Q8_0"):
        choose_file(files, "F16", "u/r")
