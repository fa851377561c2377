"""`foretoken run` as a person types it: a real process, a real tiny model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TinyPath = Callable[..., Path]


def foretoken(*arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "foretoken", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=120, env=environment)


def run(path: Path, *arguments: object, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return foretoken("run", "-m", path, "-t", 1, "-c", 512, "--temp", 0, *arguments, stdin=stdin)


def test_it_streams_the_answer_and_ends_with_timings(tiny_path: TinyPath) -> None:
    done = run(tiny_path("qwen35"), "-p", "def f(x):", "-n", 20, "--ignore-eos")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 20
    assert "memory fork" in done.stderr
    assert "exact" in done.stderr
    assert "prompt eval time" in done.stderr
    assert "20 tokens" in done.stderr
    assert "tokens per second" in done.stderr


def test_it_waits_for_no_import_of_other_commands() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "foretoken", "run", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "foretoken.cli.engine_options" in done.stderr
    assert "fastapi" not in done.stderr
    assert "foretoken.bench" not in done.stderr


def test_json_is_one_object_with_the_same_text(tiny_path: TinyPath) -> None:
    arguments = ("-p", "import os", "-n", 16, "--ignore-eos")
    plain = run(tiny_path("qwen35"), *arguments)
    record = json.loads(run(tiny_path("qwen35"), *arguments, "--json").stdout)
    assert record["text"] == plain.stdout.removesuffix("\n")
    assert record["finish_reason"] == "length"
    assert record["usage"]["completion_tokens"] == 16


@pytest.mark.parametrize(
    "drafters",
    ["none", "auto", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod", "ngram-cache", "suffix", "copy",
     "draft-model", "copy,suffix,ngram-mod"],
)  # fmt: skip
@pytest.mark.parametrize("plan", ["fixed", "adaptive"])
def test_every_drafter_gives_the_same_text(drafters: str, plan: str, tiny_path: TinyPath) -> None:
    prompt = "Write a quicksort demo in C, no comments. " * 3
    extra = ["-md", tiny_path("llama")] if drafters == "draft-model" else []
    done = run(
        tiny_path("qwen35"), "-p", prompt, "-n", 48, "--ignore-eos", "--check-integrity", "--spec-type", drafters,
        "--plan", plan, "--json", *extra,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wanted = json.loads(
        run(tiny_path("qwen35"), "-p", prompt, "-n", 48, "--ignore-eos", "--spec-type", "none", "--json").stdout
    )
    assert json.loads(done.stdout)["text"] == wanted["text"]


def test_the_seeds_command_line_is_accepted(tiny_path: TinyPath) -> None:
    done = run(
        tiny_path("qwen35"), "-p", "x = 1\n" * 8, "-n", 24, "--ignore-eos", "--spec-type", "ngram-mod",
        "--draft-max", 48, "--draft-min", 1, "--spec-use-checkpoints", "on", "--ctx-checkpoints", 12,
        "--spec-ckpt-num-tries", 2, "--spec-ngram-mod-n-match", 4, "--seed", 3407, "-np", 1, "-fa", "on",
        "--cache-type-k", "q8_0", "--cache-type-v", "q8_0",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "memory checkpoint" in done.stderr
    assert "statistics ngram-mod: #calls(b,g,a) = 1" in done.stderr


@pytest.mark.parametrize("extra", [[], ["--chat"]], ids=["plain", "chat"])
def test_an_answer_keeps_to_a_schema_or_a_grammar(extra: list[str], tiny_path: TinyPath, tmp_path: Path) -> None:
    file = tmp_path / "answer.gbnf"
    file.write_text('root ::= "yes" | "no"')
    schema = '{"enum": [{"a": 1}, {"a": 2}]}'
    chosen = run(tiny_path("qwen35"), "-p", "x", "-j", schema, *extra).stdout
    assert json.loads(chosen)["a"] in (1, 2)
    assert run(tiny_path("qwen35"), "-p", "x", "--grammar-file", file, *extra).stdout in ("yes\n", "no\n")


WRONG: dict[str, tuple[list[object], str]] = {
    "no grammar": (["-p", "x", "--grammar", "root ::= y"], "'y' not found"),
    "no grammar file": (["-p", "x", "--grammar-file", "gone.gbnf"], "cannot read gone.gbnf"),
    "two of them": (["-p", "x", "--grammar", "y", "-j", "{}"], "one grammar or schema"),
    "no such file": (["-m", "gone.gguf", "-p", "x"], "no such file"),
    "unknown drafter": (["--spec-type", "ngram-mud", "-p", "x"], "did you mean ngram-mod?"),
    "none and more": (["--spec-type", "none,copy", "-p", "x"], "cannot be combined"),
    "draft model missing": (["--spec-type", "draft-model", "-p", "x"], "add -md FILE"),
    "draft model unused": (["--spec-type", "copy", "-md", "x.gguf", "-p", "x"], "does not list draft-model"),
    "min over max": (["--draft-min", 9, "--draft-max", 3, "-p", "x"], "more than --draft-max"),
    "checkpoints contradict": (["--spec-use-checkpoints", "on", "--ctx-checkpoints", 0, "-p", "x"], "contradicts"),
    "checkpoints misspelt": (["--spec-use-checkpoints", "yes", "-p", "x"], "auto, on or off"),
    "option of nobody": (["--spec-ngram-size-n", 3, "-p", "x"], "not in use"),
    "option out of range": (["--spec-type", "copy", "--spec-copy-n-max", 0, "-p", "x"], "at least 1"),
    "misspelt flag": (["--spec-typ", "copy", "-p", "x"], "--spec-type"),
    "memory": (["--memory", "trim", "-p", "x"], "cannot be trimmed"),
    "empty prompt": (["-p", ""], "empty"),
    "prompt too long": (["-c", 256, "-p", "word " * 400], "a slot's context holds 256"),
    "plan": (["--plan", "wild", "-p", "x"], "adaptive or fixed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_end_in_one_readable_message(name: str, tiny_path: TinyPath) -> None:
    arguments, words = WRONG[name]
    model = [] if name == "no such file" else ["-m", tiny_path("qwen35")]
    done = foretoken("run", *model, "-t", 1, *arguments)
    assert done.returncode != 0
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


def test_chat_goes_on_line_by_line(tiny_path: TinyPath) -> None:
    done = run(tiny_path("qwen35"), "-n", 8, stdin="hello\n/clear\nhello\n")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("eval time") == 4
    first, second = done.stdout.strip("\n").split("\n")[:1], done.stdout.strip("\n").split("\n")[-1:]
    assert first == second, "after /clear the same question gets the same answer"


def test_a_prompt_from_standard_input(tiny_path: TinyPath) -> None:
    piped = run(tiny_path("llama"), "-p", "-", "-n", 12, "--ignore-eos", stdin="def f(x):")
    given = run(tiny_path("llama"), "-p", "def f(x):", "-n", 12, "--ignore-eos")
    assert piped.stdout == given.stdout


def test_drafters_are_listed() -> None:
    listed = {info["name"]: info for info in json.loads(foretoken("drafters", "--json").stdout)}
    assert {"copy", "suffix", "ngram-mod", "draft-model"} <= set(listed)
    assert listed["ngram-mod"]["options"]["n_match"] == 24
    assert "ngram-mod" in foretoken("drafters").stdout
