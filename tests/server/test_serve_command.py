"""`foretoken serve` as a person starts and stops it."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import typer
from typer.testing import CliRunner

from foretoken.cli.serve import defaults_from
from foretoken.cli.server_options import takes_server
from foretoken.errors import ConfigError
from foretoken.server.settings import ServerSettings
from foretoken.types import SamplingParams
from tests.server.running import TIMEOUT

COMMAND = [sys.executable, "-m", "foretoken", "serve"]


class Serving:
    """A server process, with what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def url(self) -> str:
        end = time.monotonic() + 4 * TIMEOUT
        while time.monotonic() < end:
            if found := re.search(r"listening on (http://\S+)", "".join(self.lines)):
                return found[1]
            assert self.process.poll() is None, "".join(self.lines)
            time.sleep(0.02)
        raise AssertionError("".join(self.lines))

    def wait(self) -> int:
        code = self.process.wait(TIMEOUT)
        self._thread.join(TIMEOUT)
        return code


@contextmanager
def serving(*arguments: object, **environment: str) -> Iterator[Serving]:
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    try:
        yield Serving(process)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


SMALL: tuple[object, ...] = ("-c", 4096, "-np", 2, "-t", 1, "--port", 0)
LONG = {"prompt": "x", "n_predict": 3000, "ignore_eos": True}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_and_finishes_what_runs_when_told_to_stop(model_path: Path, number: int) -> None:
    with serving("-m", model_path, *SMALL, "--alias", "tiny", "--seed", 3) as server:
        url = server.url
        answers: list[httpx.Response] = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{url}/completion", json=LONG, timeout=TIMEOUT))
        )
        asking.start()
        time.sleep(0.2)
        server.process.send_signal(number)
        asking.join()
        assert server.wait() == 0
        assert answers[0].status_code == 200
        assert answers[0].json()["tokens_predicted"] == 3000
        assert answers[0].json()["generation_settings"]["seed"] == 3
    text = "".join(server.lines)
    assert "POST /completion 200 | prompt eval time = " in text
    assert "stopped" in text
    assert "Traceback" not in text


def test_a_second_signal_does_not_wait(model_path: Path) -> None:
    with serving("-m", model_path, *SMALL, "--grace", 20) as server:
        with httpx.stream("POST", f"{server.url}/completion", json={**LONG, "stream": True}, timeout=TIMEOUT) as answer:
            lines = answer.iter_lines()
            next(lines)
            server.process.send_signal(signal.SIGINT)
            time.sleep(0.1)
            server.process.send_signal(signal.SIGINT)
            started = time.monotonic()
            assert server.wait() == 0
        assert time.monotonic() - started < 5


def test_what_cannot_work_is_one_line(model_path: Path, tmp_path: Path) -> None:
    with serving("-m", tmp_path / "none.gguf", "--port", 0) as server:
        assert server.wait() == 1
        assert server.lines == [f"foretoken: cannot load {tmp_path / 'none.gguf'}: there is no such file\n"]
    with serving("-m", model_path, *SMALL) as first, serving("-m", model_path, "--port", first.url[-5:]) as second:
        assert second.wait() == 1
        assert "cannot listen" in second.lines[-1]


def test_json_log_and_keys_from_the_environment(model_path: Path, tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('alias = "from-file"\nctx-size = 128\n')
    arguments = ("-m", model_path, *SMALL[2:], "--log-json", "--config", file)
    with serving(*arguments, LLAMA_API_KEY="secret", LLAMA_ARG_ALIAS="from-llama", FORETOKEN_N_PARALLEL="1") as server:
        url = server.url.rstrip('",}')
        assert httpx.post(f"{url}/completion", json={"prompt": "x"}).status_code == 401
        headers = {"authorization": "Bearer secret"}
        assert httpx.get(f"{url}/v1/models").json()["data"][0]["id"] == "from-file"
        props = httpx.get(f"{url}/props", headers=headers).json()
        assert props["default_generation_settings"]["n_ctx"] == 128
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 0
    assert "secret" not in "".join(server.lines)
    assert any('"status": 401' in line for line in server.lines)


def test_without_options_the_settings_are_their_defaults() -> None:
    """The options have no defaults of their own, and every setting a person may choose has an option."""
    found: list[ServerSettings] = []

    @takes_server
    def command(settings: ServerSettings) -> None:
        found.append(settings)

    parameters = inspect.signature(command).parameters.values()
    command(**{parameter.name: parameter.default for parameter in parameters})
    assert found == [ServerSettings()]
    names = {field.name for field in dataclasses.fields(ServerSettings)}
    made_of_others = {"api_keys", "sampling"}
    internal = {"keep_alive", "max_choices"}
    assert names - {parameter.name for parameter in parameters} == made_of_others | internal


def test_options_become_settings(tmp_path: Path) -> None:
    template = tmp_path / "template.jinja"
    template.write_text("{{ messages }}")
    app = typer.Typer()
    found: list[ServerSettings] = []

    @app.command()
    @takes_server
    def command(settings: ServerSettings) -> None:
        found.append(settings)

    arguments = "--temp 0.5 --seed 4 -n 7 --api-key a,b --cors-origins x --reasoning off --max-prompt 9 --patience 5 "
    arguments += '--chat-template-kwargs {"a":1} --no-cache-prompt'
    result = CliRunner().invoke(app, [*arguments.split(), "--chat-template-file", str(template)])
    assert result.exit_code == 0, result.output
    assert found == [
        ServerSettings(
            sampling=SamplingParams(temperature=0.5, seed=4), n_predict=7, api_keys=("a", "b"), cors_origins=("x",),
            reasoning="off", max_prompt=9, patience=5.0, chat_template_kwargs={"a": 1}, cache_prompt=False,
            chat_template="{{ messages }}",
        )
    ]  # fmt: skip
    for wrong in (["--reasoning", "perhaps"], ["--chat-template-kwargs", "[]"], ["--chat-template-kwargs", "{"]):
        with pytest.raises(ConfigError, match=wrong[0]):
            CliRunner().invoke(app, wrong, catch_exceptions=False)


def test_settings_come_from_the_nearest_place(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('port = 1\nhost = "file"\n')
    environment = {"LLAMA_ARG_PORT": "2", "LLAMA_ARG_ALIAS": "llama", "FORETOKEN_HOST": "ours"}
    found = defaults_from(["port", "host", "alias", "n_ctx"], environment, file)
    assert found == {"port": 1, "host": "ours", "alias": "llama"}
    file.write_text("prot = 1\n")
    with pytest.raises(ConfigError, match="no setting named prot"):
        defaults_from(["port"], {}, file)
