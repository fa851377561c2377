"""What the text drafters cost and how far they get, on edits of the standard library's own sources."""

from __future__ import annotations

import json
import random
import re
import statistics
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foretoken.speculation.base import DraftAsk, Verdict
from foretoken.speculation.drafters import TEXT_DRAFTERS
from foretoken.speculation.drafters.text import TextDrafter
from foretoken.types import Token

# Pieces of the size that byte-pair vocabularies have: a word with its space, a part of one, an indent.
_PIECE = re.compile(r" ?_?[A-Z]?[a-z]{1,7}|[A-Z]{1,4}|\d|\n[ \t]*|[ \t]+|[^\w\s]{1,2}|.", re.DOTALL)
_INSTRUCTION = "Apply the change below to this file and give the whole file back.\n```python\n"
_OPENING = "Here is the changed file:\n```python\n"
_NAME = re.compile(r"\b[a-z_][a-zA-Z_]{4,}\b")
SOURCES = ("textwrap.py", "shlex.py", "queue.py", "sched.py", "heapq.py", "bisect.py", "glob.py")
N_MAX = 32


@dataclass(frozen=True, slots=True)
class Stream:
    """A prompt and the answer that a model is taken to give to it."""

    name: str
    prompt: list[Token]
    answer: list[Token]


class Pieces:
    """Numbers the pieces of texts, the same piece always alike."""

    def __init__(self) -> None:
        self._ids: dict[str, Token] = {}

    def encode(self, text: str) -> list[Token]:
        """The numbers of the pieces of `text`."""
        return [self._ids.setdefault(piece, len(self._ids)) for piece in _PIECE.findall(text)]


def source(name: str) -> str:
    """A module of the standard library."""
    return Path(sysconfig.get_paths()["stdlib"], name).read_text(encoding="utf-8")


def rename(text: str, rng: random.Random, n: int = 4) -> str:
    """Give `n` of the names that occur most often another one."""
    names = _NAME.findall(text)
    counts = {name: names.count(name) for name in sorted(set(names))}
    frequent = sorted(counts, key=counts.__getitem__, reverse=True)[: 3 * n]
    for name in rng.sample(frequent, min(n, len(frequent))):
        text = re.sub(rf"\b{name}\b", rng.choice(("fresh_", "my", "other_")) + name.strip("_")[::-1], text)
    return text


def insert(text: str, rng: random.Random, n: int = 8) -> str:
    """Add `n` blocks of one to twelve lines that the text does not have."""
    lines, others = text.splitlines(keepends=True), source("ast.py").splitlines(keepends=True)
    for _ in range(n):
        start, size, at = rng.randrange(len(others) - 12), rng.randint(1, 12), rng.randrange(len(lines))
        lines[at:at] = others[start : start + size]
    return "".join(lines)


def delete(text: str, rng: random.Random, n: int = 8) -> str:
    """Remove `n` blocks of one to twenty lines."""
    lines = text.splitlines(keepends=True)
    for _ in range(n):
        at = rng.randrange(len(lines))
        del lines[at : at + rng.randint(1, 20)]
    return "".join(lines)


def replace(text: str, rng: random.Random, n: int = 12) -> str:
    """Change numbers, words and signs at `n` places."""
    pieces = _PIECE.findall(text)
    for _ in range(n):
        pieces[rng.randrange(len(pieces))] = rng.choice((" fresh", "7", "other_name", "()", "not "))
    return "".join(pieces)


def move(text: str, rng: random.Random) -> str:
    """Put the definitions into another order and leave a third of them out."""
    blocks = re.split(r"(?m)^(?=    def |def |class )", text)
    rng.shuffle(blocks)
    return "".join(blocks[: 1 + 2 * len(blocks) // 3])


def mix(text: str, rng: random.Random) -> str:
    """A little of every change."""
    return replace(delete(insert(rename(text, rng, 2), rng, 3), rng, 3), rng, 5)


CHANGES = {
    "unchanged": lambda text, rng: text,
    "rename": rename,
    "insertion": insert,
    "deletion": delete,
    "replacement": replace,
    "moved": move,
    "mixed": mix,
}


def streams(names: Sequence[str] = SOURCES, seed: int = 7) -> list[Stream]:
    """Every change on every source, and prose that repeats nothing on purpose."""
    pieces, rng = Pieces(), random.Random(seed)
    found = []
    for change, apply in CHANGES.items():
        for name in names:
            text = source(name)
            prompt = pieces.encode(_INSTRUCTION + text + "```\n")
            found.append(Stream(change, prompt, pieces.encode(_OPENING + apply(text, rng) + "```\n")))
    prose = pieces.encode(source("pydoc_data/topics.py").replace("\\n", "\n"))
    found.append(Stream("free text", prose[:6000], prose[6000:9000]))
    return found


def simulate(drafter: TextDrafter[Any], stream: Stream, n_max: int = N_MAX) -> dict[str, float]:
    """Let a drafter draft a known answer: steps, tokens drafted, accepted, and expected by itself to be."""
    tokens, answer = list(stream.prompt), stream.answer
    done = {"steps": 0.0, "drafted": 0.0, "accepted": 0.0, "expected": 0.0}
    drafter.begin(0, tokens, stream.name)
    at = 0
    while at < len(answer):
        draft = drafter.draft([DraftAsk(0, tokens, n_max)])[0]
        n = 0
        while n < len(draft) and at + n < len(answer) and draft.tokens[n] == answer[at + n]:
            n += 1
        emitted = tuple(answer[at : at + n + 1])
        if len(draft):
            drafter.accept(0, Verdict(draft, emitted, n))
        tokens += emitted
        at += len(emitted)
        product = 1.0
        for confidence in draft.confidence:
            product *= confidence
            done["expected"] += product
        done["steps"] += 1
        done["drafted"] += len(draft)
        done["accepted"] += n
    drafter.end(0)
    return done


def cost(drafter: TextDrafter[Any], n_history: int, n_steps: int) -> dict[str, float]:
    """Milliseconds of `begin` and microseconds of `draft` with `n_history` tokens, growing by 1 to 16 a step.

    Counted is the time of this thread, so that other work on the machine does not show.
    """
    rng, pieces = random.Random(1), Pieces()
    text = pieces.encode("".join(map(source, ("argparse.py", "ast.py", "tarfile.py", "typing.py"))))
    while len(text) < n_history:
        text += text
    tokens = text[:n_history]
    # The answer repeats the last part of the prompt with a slip now and then, so that every path is walked.
    answer = (tokens * (1 + 16 * n_steps // n_history))[-16 * n_steps :]
    answer = [rng.randrange(5000) if rng.random() < 0.03 else token for token in answer]
    begun = time.thread_time()
    drafter.begin(0, tokens, "cost")
    begin_ms = (time.thread_time() - begun) * 1e3
    micros, at = [], 0
    for _ in range(n_steps):
        n = rng.randint(1, 16)
        tokens += answer[at : at + n]
        at += n
        started = time.thread_time()
        drafter.draft([DraftAsk(0, tokens, N_MAX)])
        micros.append((time.thread_time() - started) * 1e6)
    memory = drafter.memory_bytes()
    drafter.end(0)
    micros.sort()
    return {
        "begin_ms": round(begin_ms, 2),
        "draft_us": round(statistics.median(micros), 1),
        "draft_us_p99": round(micros[int(0.99 * (len(micros) - 1))], 1),
        "memory_mb": round(memory / 1e6, 2),
    }


def measure(n_history: int = 32768, n_steps: int = 400, names: Sequence[str] = SOURCES) -> list[dict[str, Any]]:
    """One row per text drafter: its cost, and by kind of answer the accepted tokens per step.

    `accepted` is the mean length accepted, `expected` the same by the drafter's own confidences,
    `rate` the share of drafted tokens that were accepted.
    """
    rows = []
    for kind in TEXT_DRAFTERS:
        row: dict[str, Any] = {"drafter": kind.name, **cost(kind(), n_history, n_steps)}
        sums: dict[str, dict[str, float]] = {}
        for stream in streams(names):
            done = simulate(kind(), stream)
            total = sums.setdefault(stream.name, dict.fromkeys(done, 0.0))
            for key, value in done.items():
                total[key] += value
        row["streams"] = {
            name: {
                "accepted": round(total["accepted"] / total["steps"], 2),
                "expected": round(total["expected"] / total["steps"], 2),
                "rate": round(total["accepted"] / max(total["drafted"], 1), 3),
            }
            for name, total in sums.items()
        }
        rows.append(row)
    return rows


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
