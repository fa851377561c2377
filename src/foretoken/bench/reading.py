"""What a turn of a long conversation takes beside computing: python -m foretoken.bench.reading [-n TOKENS] [FILE.gguf].

A text is read for the first time, and again as the next turn reads it: a few hundred tokens longer. No model computes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TypeVar

from foretoken import machine
from foretoken.llama.vocabulary import Vocabulary
from foretoken.models import DEFAULT, path_of
from foretoken.server.known_texts import KnownTexts
from foretoken.speculation.drafters.copy import CopyDrafter
from foretoken.speculation.drafters.suffix import SuffixDrafter
from foretoken.types import Request, Token
from foretoken.worker.messages import Frames, Submit, pack, read_order
from foretoken.worker.vocabulary import open_vocabulary

T = TypeVar("T")

_MESSAGE = "<|im_start|>user\n{number}: call f{number}({argument}) and say what {argument} is.\n{lines}<|im_end|>\n"
_MORE = 500
"""Tokens that a turn adds, roughly."""


@dataclass(frozen=True, slots=True)
class Part:
    """Milliseconds of one part of the way from a request to the engine."""

    name: str
    first_ms: float
    next_ms: float


def measure(vocabulary: Vocabulary, n_tokens: int, n_rounds: int) -> list[Part]:
    """Every part, for a text that nobody knows and for its continuation."""
    text, more = _conversation(vocabulary, n_tokens)
    before, after = vocabulary.tokenize(text), vocabulary.tokenize(text + more)
    return [
        _part("tokenising", n_rounds, lambda: _tokenising(vocabulary), text, text + more),
        _part("handing over to the worker", n_rounds, lambda: _handing_over, before, after),
        _part("copy: reading the prompt", n_rounds, lambda: _beginning(CopyDrafter()), before, after),
        _part("suffix: reading the prompt", n_rounds, lambda: _beginning(SuffixDrafter()), before, after),
    ]


def _conversation(vocabulary: Vocabulary, n_tokens: int) -> tuple[str, str]:
    """About so many tokens, and the turn after them."""
    messages: list[str] = []
    n = n_first = 0
    while n < n_tokens + _MORE:
        number = len(messages)
        lines = "".join(f"    value_{i} = table[{number * i % 97}] + {number}\n" for i in range(number % 23))
        messages.append(_MESSAGE.format(number=number, argument=number * 7919 % 1000, lines=lines))
        n += len(vocabulary.tokenize(messages[-1], add_special=False))
        if n < n_tokens:
            n_first = len(messages)
    return "".join(messages[:n_first]), "".join(messages[n_first:])


def _part(name: str, n_rounds: int, fresh: Callable[[], Callable[[T], object]], one: T, two: T) -> Part:
    times = []
    for _ in range(n_rounds):
        read = fresh()
        times.append((_ms(read, one), _ms(read, two)))
    return Part(name, median(first for first, _ in times), median(second for _, second in times))


def _ms(read: Callable[[T], object], what: T) -> float:
    started = time.perf_counter()
    read(what)
    return (time.perf_counter() - started) * 1e3


def _tokenising(vocabulary: Vocabulary) -> Callable[[str], object]:
    known = KnownTexts(vocabulary)
    return lambda text: known.tokenize(text, "owner")


def _handing_over(tokens: Sequence[Token]) -> object:
    (frame,) = Frames().feed(pack(Submit.of(Request(tokens))))
    order = read_order(frame)
    assert isinstance(order, Submit)
    return order.request


def _beginning(drafter: CopyDrafter | SuffixDrafter) -> Callable[[Sequence[Token]], object]:
    def begin(tokens: Sequence[Token]) -> None:
        drafter.begin(0, tokens, "owner")
        drafter.end(0)

    return begin


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m foretoken.bench.reading", description=__doc__)
    parser.add_argument("model", nargs="?", type=Path, default=path_of(DEFAULT), help="a GGUF; its vocabulary is used")
    parser.add_argument("-n", type=int, default=100_000, help="tokens of the conversation")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    with open_vocabulary(options.model) as vocabulary:
        parts = measure(vocabulary, options.n, options.rounds)
    facts = machine.describe()
    print(f"{facts['date']}, {facts['cpu']}: milliseconds, {options.n} tokens, medians of {options.rounds} rounds\n")
    print("| | read for the first time | the turn after it |\n|---|---|---|")
    for part in parts:
        print(f"| {part.name} | {part.first_ms:.1f} | {part.next_ms:.1f} |")


if __name__ == "__main__":
    main()
