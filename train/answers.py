"""What a model says to many requests, and the likeliest tokens at every place: a draft model's lessons."""

import argparse
import random
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.models import path_of
from foretoken.types import Chunk, Finish, Request, SamplingParams

from chat import Dialogue, render
from corpus import read_archive
from dialogues import describing, editing
from fetch import HERE
from handmade import LANGUAGES, handmade, programs
from snippets import Snippet, snippets
from structured import extraction, json_edit
from tool_calls import tool_call
from words import SYSTEMS

N_BEST = 16
BEFORE = 160  # tokens of a prompt that are kept: a draft model reads only the end of a text
LONGEST_ANSWER = 224
LONGEST_CODE = 4000
LONGEST_PROMPT = 1700
REQUESTS = (
    "Write a {task} function in {language}.", "I need {task} in {language}.", "{task}, {language}",
    "Please write {task} in {language}.", "Could you implement {task} in {language} for me?",
    "Write a small {language} program for {task}.", "Provide {task} in {language}, code only.",
    "Create a {language} version of {task} with a few comments.", "A simple {task} in {language}, please.",
    "Write {task} in {language} and explain nothing.", "How would you do {task} in {language}?",
    "Write clean {language} code for {task}.", "Can I see {task} written in {language}?",
    "Help me write {task} in {language}. Keep it short.",
)  # fmt: skip
FOLLOW_UPS = (
    "Now write {task} in {language}.", "Next, {task} in the same style.", "And {task}?",
    "Add comments to it.", "Now do it in {language}.", "Can you make it shorter?",
    "Add a main function that tests it.",
    "Thanks. Now {task}.", "Put it into a class.", "Use better names.", "Then compare it with {task}.",
    "Explain the code.",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Said:
    """The end of a prompt, the answer, and the likeliest tokens at its places with log probabilities."""

    prompt: list[int]
    answer: list[int]
    best: list[list[tuple[int, float]]]


def program_request(rng: random.Random, template: str) -> str:
    """A request for one of the tasks of the hand-written set."""
    return template.format(task=rng.choice(list(programs())), language=rng.choice(list(LANGUAGES.values())))


class Requests:
    """Conversations to be had: programs, structured text, descriptions, edits, and code to go on with."""

    def __init__(self, corpus: Path, seed: int, programs_share: float) -> None:
        self.rng, self.programs_share = random.Random(seed), programs_share
        self.documents = [doc for path in sorted(corpus.glob("train-*.xz")) for doc in read_archive(path)]

    def __iter__(self) -> Iterator[tuple[str | None, list[Dialogue]]]:
        """Either a text to go on with, or the turns of a conversation; for ever."""
        while True:
            roll = self.rng.random()
            if roll < self.programs_share:
                yield None, self.programs()
            elif roll < self.programs_share + 0.2:
                make = self.rng.choice((extraction, tool_call, json_edit, handmade))
                yield None, [make(self.rng)]
            elif self.rng.random() < 0.5:
                yield from ((None, [made]) for made in self.about_code())
            else:
                text = self.rng.choice(self.documents)[1]
                start = self.rng.randrange(max(1, len(text) - 1200))
                yield text[start : start + self.rng.randrange(300, 900)], []

    def programs(self) -> list[Dialogue]:
        """One to three turns about small programs."""
        turns, system = [], self.rng.random() < 0.3
        for n in range(self.rng.choice((1, 1, 2, 3))):
            turn = Dialogue("program")
            if system and n == 0:
                turn.messages.append({"role": "system", "content": self.rng.choice(SYSTEMS)})
            turn.user(program_request(self.rng, self.rng.choice(FOLLOW_UPS if n else REQUESTS)))
            turns.append(turn)
        return turns

    def about_code(self) -> Iterator[Dialogue]:
        """A description or an edit of a piece of code."""
        kind, text = self.rng.choice(self.documents)
        found = [snippet for snippet in snippets(kind, text, self.rng) if len(snippet.code) < LONGEST_CODE]
        for snippet in self.rng.sample(found, min(1, len(found))):
            made = (describing if self.rng.random() < 0.3 else editing)(
                Snippet(snippet.language, snippet.code), self.rng
            )
            if made:
                yield made


def converse(engine: Engine, text: str | None, turns: list[Dialogue]) -> list[Said]:
    """Have one conversation; each turn follows the model's own answers to those before."""
    if text is not None:
        return [ask(engine, text, chat=False)[0]]
    messages, said = [], []
    for turn in turns:
        asked = turn.messages if turn.messages[-1]["role"] == "user" else turn.messages[:-1]
        messages += asked
        heard, answer = ask(engine, render(messages, turn.tools, ask=True))
        said.append(heard)
        messages.append({"role": "assistant", "content": answer})
    return said


def ask(engine: Engine, prompt: str, chat: bool = True) -> tuple[Said, str]:
    """One answer, greedily."""
    tokens = engine.tokenize(prompt)[-LONGEST_PROMPT:]
    n_max = LONGEST_ANSWER if chat else LONGEST_ANSWER // 2
    request = Request(tokens, SamplingParams(temperature=0), n_max, logprobs=N_BEST, cache_prompt=False)
    infos, text = [], ""
    for event in engine.generate(request):
        if isinstance(event, Chunk):
            infos += event.tokens
            text += event.text
        elif isinstance(event, Finish) and event.error:
            raise SystemExit(f"no answer: {event.error}")
    answer = [info.id for info in infos]
    return Said(tokens[-BEFORE:], answer, [list(info.top) for info in infos]), text


def store(said: list[Said], out: Path) -> None:
    """Everything in four arrays: tokens, whether they were said, and the likeliest there."""
    tokens, kind, best, chances = [], [], [], []
    for number, one in enumerate(said):
        for token, pairs in [*((t, []) for t in one.prompt), *zip(one.answer, one.best, strict=True)]:
            padded = [*pairs, *[(0, float("-inf"))] * N_BEST][:N_BEST]
            tokens.append(token)
            kind.append((number << 1) | bool(pairs))
            best.append([t for t, _ in padded])
            chances.append([p for _, p in padded])
    np.savez(
        out, tokens=np.array(tokens, np.int16), kind=np.array(kind, np.int32), best=np.array(best, np.int16),
        chances=np.array(chances, np.float16),
    )  # fmt: skip


def gather(engine: Engine, requests: Requests, n_tokens: int, jobs: int, out: Path) -> None:
    """Conversations, several at once, until so many tokens are said; what there is is stored now and then."""
    said: list[Said] = []
    total, told, source = 0, 0, iter(requests)
    with ThreadPoolExecutor(jobs) as pool:
        going: deque[Future[list[Said]]] = deque()
        while total < n_tokens:
            while len(going) < 4 * jobs:
                going.append(pool.submit(converse, engine, *next(source)))
            heard = going.popleft().result()
            said += heard
            total += sum(len(one.answer) for one in heard)
            if total - told >= n_tokens // 20:
                told = total
                store(said, out)
                print(f"{total:,} tokens", flush=True)
        pool.shutdown(cancel_futures=True)
    store(said, out)


def main() -> None:
    """Gather answers and store them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=path_of("mini"))
    parser.add_argument("--corpus", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument("--out", type=Path, default=HERE / "work" / "said.npz")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--programs", type=float, default=0.3, help="share of requests for small programs")
    parser.add_argument("--jobs", type=int, default=24, help="answers at once")
    args = parser.parse_args()
    speculation = SpeculationConfig(drafters=())
    config = EngineConfig(ModelConfig(args.model), n_parallel=args.jobs, n_ctx=2048, speculation=speculation)
    with Engine.from_config(config) as engine:
        gather(engine, Requests(args.corpus, args.seed, args.programs), args.tokens, args.jobs, args.out)


if __name__ == "__main__":
    main()
