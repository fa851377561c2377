"""Answers of a real model, as text: what random weights in a true shape are made to say."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

from foretoken.bench import workloads
from foretoken.bench.cases import Case
from foretoken.bench.compare import Recording, record
from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.engine import Engine
from foretoken.types import SamplingParams

WORKLOADS = ("code-edit", "refactor", "quicksort-chat", "json-extraction", "summary-quotes", "free-prose")


@dataclass(frozen=True, slots=True)
class Said:
    """One request with its answer, and who gave it."""

    model: str
    workload: str
    name: str
    prompt: str
    answer: str


def load() -> list[Said]:
    """The answers that come with the benchmark."""
    data = json.loads(files(__package__).joinpath("recordings.json").read_text(encoding="utf-8"))
    return [Said(**entry) for entry in data["answers"]]


def make(model: Path, names: Sequence[str], n_threads: int, say: Callable[[str], None]) -> list[Said]:
    """Let a model answer workloads, and write down what it said."""
    with Engine.from_config(EngineConfig(ModelConfig(model), n_ctx=4096, n_threads=n_threads)) as engine:
        return [one for name in names for one in _answers(engine, record(engine, workloads.load(name), None, say))]


def store(said: Sequence[Said], out: Path) -> None:
    """Keep answers in the form that `load` reads."""
    text = json.dumps({"answers": [asdict(one) for one in said]}, indent=1, ensure_ascii=False)
    out.write_text(text + "\n", encoding="utf-8")


def _answers(engine: Engine, recording: Recording) -> list[Said]:
    pairs = zip(recording.cases, recording.answers, strict=True)
    silent = engine.vocabulary.is_control
    model = engine.assembly.model.name
    said = []
    for case, tokens in pairs:
        answer = engine.detokenize([token for token in tokens if not silent(token)])
        said.append(Said(model, case.workload, case.name, case.prompt, answer))
    return said


def tokenised(engine: Engine, said: Sequence[Said], name: str, n_max: int) -> Recording:
    """A workload's answers in the tokens of another vocabulary, cut to `n_max`; the seed is the answer's number."""
    chosen = [(seed, one) for seed, one in enumerate(said, 1) if one.workload == name]
    answers = [tuple(engine.tokenize(one.answer)[:n_max]) for _, one in chosen]
    cases = [
        Case(name, one.name, one.prompt, SamplingParams(temperature=0, seed=seed), len(answer))
        for (seed, one), answer in zip(chosen, answers, strict=True)
    ]
    return Recording(workloads.load(name), tuple(cases), tuple(answers))
