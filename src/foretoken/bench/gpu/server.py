"""llama-server of the same build, as contestants: plain and with its own drafters, following the same recordings."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from foretoken.bench.remote import Server
from foretoken.errors import ForetokenError
from foretoken.types import Token

DRAFTERS = ("none", "ngram-mod", "ngram-map-k")
_FIRST_PORT = 18431
_PATIENCE_S = 120.0


def write_scripts(path: Path, scripts: Mapping[int, Sequence[Token]]) -> None:
    """The file that LLAMA_RECORDED names: a line per answer, its seed first."""
    path.write_text("".join(f"{seed} {' '.join(map(str, tokens))}\n" for seed, tokens in scripts.items()))


@contextmanager
def running(
    binary: Path, model: Path, n_ctx: int, scripts: Path | None, drafters: Sequence[str] = DRAFTERS
) -> Iterator[list[Server]]:
    """One server per drafter, all at once; each is asked alone."""
    with ExitStack() as stack:
        processes = []
        for i, drafter in enumerate(drafters):
            port = _FIRST_PORT + i
            command = [
                str(binary), "-m", str(model), "--port", str(port), "-c", str(n_ctx), "-np", "1", "-ngl", "99",
                "-fa", "on", "-t", "4", "--spec-type", drafter,
            ]  # fmt: skip
            log = stack.enter_context(Path(f"{model.name}.{drafter}.log").open("wb"))
            env = os.environ | ({"LLAMA_RECORDED": str(scripts)} if scripts else {})
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)
            stack.callback(_stop, process)
            processes.append((process, f"http://127.0.0.1:{port}", f"llama-server {drafter}"))
        for process, url, _ in processes:
            _wait(process, url)
        servers = [Server(url, label) for _, url, label in processes]
        for server in servers:
            stack.callback(server.close)
        yield servers


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ForetokenError(f"llama-server ended with {process.returncode}; see its log")
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise ForetokenError(f"llama-server at {url} did not start within {_PATIENCE_S:.0f} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
