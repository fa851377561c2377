"""A draft model of any weights whose guesses are those of a recording: they are made, paid for, and then set aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from foretoken.bench.compare import Recording
from foretoken.bench.gpu.guesses import Guess, recut, unpack
from foretoken.bench.gpu.recordings import Said
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.speculation.base import DraftAsk, Drafter
from foretoken.speculation.drafters.draft_model import DraftModelDrafter
from foretoken.speculation.guard import Guard
from foretoken.types import SeqId, Token

Prompt = tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Guessed:
    """An answer that will be said, and what was guessed of each of its tokens."""

    tokens: Sequence[Token]
    guesses: Sequence[Guess]


_UNKNOWN = Guessed((), ())


class RecordedDraftModel(DraftModelDrafter):
    """Takes the place of a draft model's drafter and lets its model run; a text it does not know it does not guess.

    Behind a wrong guess it goes on as sure as it was of the right text: a draft model does not know better either, and
    what is wasted on that is rather too much than too little.
    """

    def __init__(self, replaced: DraftModelDrafter, answers: Mapping[Prompt, Guessed]) -> None:
        self._answers = answers
        self._following: dict[SeqId, tuple[int, Guessed]] = {}
        super().__init__(replaced.host, n_max=replaced.n_max, p_min=replaced.p_min, window=replaced.window)

    def begin(self, seq: SeqId, prompt: Sequence[Token], owner: str) -> None:
        super().begin(seq, prompt, owner)
        self._following[seq] = (len(prompt), self._answers.get(tuple(prompt), _UNKNOWN))

    def end(self, seq: SeqId) -> None:
        super().end(seq)
        self._following.pop(seq, None)

    def choose(self, logits: NDArray[np.float32], ask: DraftAsk, drafted: Sequence[Token]) -> tuple[Token, float]:
        own, _ = super().choose(logits, ask, drafted)
        n_prompt, answer = self._following.get(ask.seq, (0, _UNKNOWN))
        said = len(ask.tokens) - n_prompt
        at = said + len(drafted)
        if at >= len(answer.tokens):
            return own, 0.0
        token, guess = answer.tokens[at], answer.guesses[at]
        if guess.right and list(drafted) == list(answer.tokens[said:at]):
            return token, guess.p
        # The model's own choice could end the text, and then there would be nothing to verify.
        return next((other for other in ask.tokens if other != token), own), guess.p


def guessed_answers(engine: Engine, said: Sequence[Said], texts: Sequence[Recording]) -> dict[Prompt, Guessed]:
    """The answers of these recordings with their guesses, by prompt; a case's seed is its answer's number."""
    vocabulary = engine.vocabulary
    found: dict[Prompt, Guessed] = {}
    for text in texts:
        for case, answer in zip(text.cases, text.answers, strict=True):
            assert case.sampling.seed is not None
            guesses = unpack(said[case.sampling.seed - 1].guesses)
            lengths = [len(vocabulary.piece(token)) for token in answer]
            found[tuple(engine.tokenize(case.prompt))] = Guessed(answer, recut(guesses, lengths))
    return found


@contextmanager
def guessing(engine: Engine, answers: Mapping[Prompt, Guessed]) -> Iterator[None]:
    """While this lasts, the guesses of an engine's draft model at these answers are the recorded ones."""
    before = engine.call(lambda loop: _exchange(loop, answers))
    try:
        yield
    finally:
        engine.call(lambda loop: _put_back(loop, before))


def _exchange(loop: Loop, answers: Mapping[Prompt, Guessed]) -> Drafter:
    before = _place(loop).drafter
    assert isinstance(before, DraftModelDrafter)
    _place(loop).drafter = RecordedDraftModel(before, answers)
    return before


def _put_back(loop: Loop, before: Drafter) -> None:
    _place(loop).drafter = before


def _place(loop: Loop) -> Guard:
    return next(guard for guard in loop.speculator.guards if guard.name == DraftModelDrafter.name)
