"""Answers of a real model, as text: what random weights in a true shape are made to say."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from foretoken.bench import agent_session, workloads
from foretoken.bench.cases import Case
from foretoken.bench.compare import Recording, record
from foretoken.bench.gpu.guesses import Guess, pack
from foretoken.bench.workloads import Workload
from foretoken.chat import ChatTemplate
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.assembly import assemble
from foretoken.engine.engine import Engine
from foretoken.engine.host import EngineHost
from foretoken.errors import ForetokenError
from foretoken.llama.model import Model
from foretoken.llama.vocabulary import Vocabulary
from foretoken.models import path_of
from foretoken.speculation.base import DraftAsk
from foretoken.speculation.drafters.draft_model import DraftModelDrafter
from foretoken.speculation.host import Host
from foretoken.types import SamplingParams

AGENT = Workload("agent-session", "patches and reports of a coding agent", "chat", 512, ())
"""Not a workload that models answer: the longest messages of the recorded session of `foretoken bench cache`."""
WORKLOADS = (
    "code-edit", "refactor", "quicksort-chat", "json-extraction", "summary-quotes", "free-prose", AGENT.name
)  # fmt: skip
_AGENT_ANSWERS = 4


@dataclass(frozen=True, slots=True)
class Said:
    """One request with its answer, and who gave it."""

    model: str
    workload: str
    name: str
    prompt: str
    answer: str
    guesses: str = ""
    """What a draft model guessed of it, token by token (see `pack`); empty if none was asked."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Let a draft model guess the answers that a model gave, and add those of the recorded agent.

    `python -m foretoken.bench.gpu.recordings --out src/foretoken/bench/gpu/recordings.json` makes both again for the
    recordings that come with the benchmark; the other answers stay as they are.
    """
    parser = argparse.ArgumentParser(prog="python -m foretoken.bench.gpu.recordings", description=__doc__)
    parser.add_argument("--model", type=Path, default=path_of("mini"), help="whose answers are guessed")
    parser.add_argument("--draft", type=Path, default=path_of("nano"), help="who guesses")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    said = [one for one in load() if one.workload != AGENT.name]
    store([*guessed(said, options.model, options.draft, options.threads), *agent_answers(options.model)], options.out)


def load() -> list[Said]:
    """The answers that come with the benchmark."""
    data = json.loads(files(__package__).joinpath("recordings.json").read_text(encoding="utf-8"))
    return [Said(**entry) for entry in data["answers"]]


def make(model: Path, names: Sequence[str], n_threads: int, say: Callable[[str], None]) -> list[Said]:
    """Let a model answer workloads, and write down what it said."""
    with Engine.from_config(EngineConfig(ModelConfig(model), n_ctx=4096, n_threads=n_threads)) as engine:
        return [one for name in names for one in _answers(engine, record(engine, workloads.load(name), None, say))]


def agent_answers(model: Path) -> list[Said]:
    """The longest messages of the recorded agent, as this model's template writes them."""
    session = agent_session.load()
    with Model(ModelConfig(model, vocab_only=True)) as source:
        template = ChatTemplate(source.chat_template)
    said = []
    for turn, after in pairwise(session.turns):
        n = len(turn.messages)
        # Neither asked again nor edited: what follows was said to this.
        if len(after.messages) == n or after.messages[:n] != turn.messages:
            continue
        written = [
            template.render(messages, tools=session.tools, enable_thinking=False, add_generation_prompt=ends)
            for messages, ends in ((turn.messages, True), (after.messages[: n + 1], False))
        ]
        prompt, answer = written[0], written[1].removeprefix(written[0])
        if answer != written[1]:
            said.append(Said("agent", AGENT.name, turn.title, prompt, answer.rstrip().removesuffix("<|im_end|>")))
    longest = sorted(said, key=lambda one: len(one.answer))[-_AGENT_ANSWERS:]
    return [one for one in said if one in longest]


def store(said: Sequence[Said], out: Path) -> None:
    """Keep answers in the form that `load` reads."""
    entries = [{key: value for key, value in asdict(one).items() if value} for one in said]
    text = json.dumps({"answers": entries}, indent=1, ensure_ascii=False)
    out.write_text(text + "\n", encoding="utf-8")


def guessed(said: Sequence[Said], model: Path, draft: Path, n_threads: int) -> list[Said]:
    """The answers, those that this model gave with what the draft model guesses at each of their tokens."""
    speculation = SpeculationConfig(draft_model=ModelConfig(draft))
    config = EngineConfig(ModelConfig(model), n_ctx=4096, n_threads=n_threads, speculation=speculation)
    target = assemble(config)
    host = EngineHost(config, target)
    try:
        vocabulary = target.model.vocabulary
        return [
            replace(one, guesses=pack(list(_guesses(host, vocabulary, one)))) if one.model == target.model.name else one
            for one in said
        ]
    finally:
        host.close()
        target.close()


def _guesses(host: Host, vocabulary: Vocabulary, said: Said) -> Iterator[Guess]:
    # A drafter of its own: what one read for the turn before would help with this one.
    drafter = DraftModelDrafter(host, n_max=1, p_min=0.0)
    tokens = vocabulary.tokenize(said.prompt)
    answer = vocabulary.tokenize(said.answer, add_special=False)
    if vocabulary.detokenize(answer) != said.answer:
        raise ForetokenError(f"{said.workload}, {said.name}: the tokens of the answer are not its text")
    for token in answer:
        (draft,) = drafter.draft([DraftAsk(0, tokens, 1)])
        yield Guess(len(vocabulary.piece(token)), draft.tokens[0] == token, draft.confidence[0])
        tokens.append(token)


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
    workload = AGENT if name == AGENT.name else workloads.load(name)
    return Recording(workload, tuple(cases), tuple(answers))


if __name__ == "__main__":
    main()
