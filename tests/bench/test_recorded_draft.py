"""A draft model with random weights that guesses what was recorded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from foretoken.bench import shapes
from foretoken.bench.gpu import recordings, report, run
from foretoken.bench.gpu.guesses import Guess, unpack
from foretoken.bench.gpu.recorded_draft import Guessed, guessed_answers, guessing
from foretoken.bench.gpu.scripted import scripted
from foretoken.config import ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.models import path_of
from foretoken.types import Chunk, DrafterUsage, Finish, Request, SamplingParams, Token

TARGET, DRAFT = "toy-qwen3.5-27b", "toy-qwen3.5-0.8b"
PROMPT, SCRIPT = [9, 10, 11], list(range(100, 140))
SURE, UNSURE = 0.9, 0.35


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Toys with the embedded models' vocabulary."""
    folder = tmp_path_factory.mktemp("toys")
    for name in (TARGET, DRAFT):
        shapes.write(folder / f"{name}.gguf", name, path_of("mini"))
    return folder


@contextmanager
def drafting(folder: Path) -> Iterator[Engine]:
    """An engine that verifies whatever its draft model offers."""
    draft = ModelConfig(folder / f"{DRAFT}.gguf")
    speculation = SpeculationConfig(drafters=("draft-model",), plan="fixed", draft_model=draft)
    with Engine.load(folder / f"{TARGET}.gguf", n_ctx=512, n_threads=1, speculation=speculation) as engine:
        yield engine


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with drafting(folder) as engine:
        yield engine


def play(engine: Engine, guesses: Sequence[Guess], prompt: list[Token] = PROMPT) -> DrafterUsage:
    """Let the script be said with these guesses at it; what the draft model did."""
    with scripted(engine, {3: SCRIPT}), guessing(engine, {tuple(PROMPT): Guessed(SCRIPT, guesses)}):
        request = Request(prompt, SamplingParams(temperature=0, seed=3), len(SCRIPT), cache_prompt=False)
        events = list(engine.generate(request))
    assert [info.id for event in events if isinstance(event, Chunk) for info in event.tokens] == SCRIPT
    finish = events[-1]
    assert isinstance(finish, Finish)
    return finish.usage.drafters["draft-model"]


def test_right_guesses_are_accepted(engine: Engine) -> None:
    did = play(engine, [Guess(1, True, SURE)] * len(SCRIPT))
    assert did.verified == did.accepted
    # Eight at a time, and a token of the model's own with each; the first token is read off the prompt.
    assert did.accepted == len(SCRIPT) - 1 - did.drafts_verified
    assert not did.failures


def test_wrong_guesses_are_verified_and_refused(engine: Engine) -> None:
    did = play(engine, [Guess(1, False, SURE)] * len(SCRIPT))
    assert did.verified > did.drafts_verified > len(SCRIPT) // 2
    assert did.accepted == did.failures == 0


def test_after_a_wrong_guess_nothing_of_a_draft_is_right(engine: Engine) -> None:
    did = play(engine, [Guess(1, i % 4 != 0, SURE) for i in range(len(SCRIPT))])
    assert did.accepted_at[2] > 0
    assert len(did.accepted_at) == 3
    assert did.verified > did.accepted


def test_unsure_guesses_are_not_offered(engine: Engine) -> None:
    did = play(engine, [Guess(1, True, UNSURE)] * len(SCRIPT))
    assert did.draft_calls > 0
    assert did.offered == 0


def test_an_unknown_text_is_not_guessed(engine: Engine) -> None:
    did = play(engine, [Guess(1, True, SURE)] * len(SCRIPT), [*PROMPT, 12])
    assert did.draft_calls > 0
    assert did.offered == 0


def test_afterwards_the_draft_model_guesses_for_itself(engine: Engine) -> None:
    drafter = engine.call(lambda loop: loop.speculator.guards[0].drafter)
    play(engine, [Guess(1, True, SURE)] * len(SCRIPT))
    assert engine.call(lambda loop: loop.speculator.guards[0].drafter) is drafter


def test_guesses_come_with_the_recordings_in_any_vocabulary(engine: Engine) -> None:
    said = recordings.load()
    for one in said:
        guesses = unpack(one.guesses)
        assert sum(guess.n_bytes for guess in guesses) == (len(one.answer.encode()) if "mini" in one.model else 0)
    text = recordings.tokenised(engine, said, "quicksort-chat", 50)
    found = guessed_answers(engine, said, [text])
    assert [len(answer.guesses) for answer in found.values()] == [50] * 4
    # The embedded models' own vocabulary: their guesses as they are.
    assert next(iter(found.values())).guesses == unpack(said[8].guesses)[:50]


def test_a_draft_model_guesses_what_another_model_said() -> None:
    said = next(one for one in recordings.load() if one.workload == "quicksort-chat")
    short = recordings.Said(said.model, said.workload, said.name, said.prompt, said.answer[:60])
    other = recordings.Said("somebody", said.workload, said.name, said.prompt, said.answer[:60])
    guessed, unguessed = recordings.guessed([short, other], path_of("mini"), path_of("nano"), 1)
    assert guessed.answer == short.answer
    assert sum(one.n_bytes for one in unpack(guessed.guesses)) == 60
    assert sum(one.right for one in unpack(guessed.guesses)) > len(unpack(guessed.guesses)) / 2
    assert unguessed == other


def test_a_run_with_a_draft_model_stands_beside_the_run_without(folder: Path) -> None:
    out = folder / "gpu.json"
    arguments = ["--models", TARGET, "--draft", DRAFT, "--folder", str(folder), "--out", str(out), "--parts", "",
                 "--workloads", "quicksort-chat,free-prose", "--four", "", "--requests", "1", "--n-predict", "16",
                 "--context", "1024"]  # fmt: skip
    run.main(arguments)
    kept = json.loads(out.read_text())
    parts = {name for name in kept[TARGET] if "paces" in kept[TARGET][name]["result"]}
    assert parts == {"quicksort-chat/1", "free-prose/1", f"quicksort-chat/1+{DRAFT}"}
    for name in parts:
        result = kept[TARGET][name]["result"]
        assert {pace["n_identical"] for pace in result["paces"].values()} == {result["n_answers"]}
    text = "\n".join(report.tables(kept))
    assert f"| {TARGET} | {DRAFT} | quicksort-chat | 1 | 16 |" in text
    assert text.count("| quicksort-chat | 1 |") == 2
