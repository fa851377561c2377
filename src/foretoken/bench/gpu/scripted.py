"""A sampler that follows a recording: the model's own choice is made, paid for, and then set aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from foretoken.backend import Among, Sampler
from foretoken.engine.engine import Engine
from foretoken.engine.loop import Loop
from foretoken.types import SamplingParams, Token

Script = Sequence[Token]


class ScriptedSampler:
    """Says the next token of a script for every row that is sampled; verification compares drafts with that."""

    def __init__(self, model: Sampler, script: Script) -> None:
        self._model = model
        self._script = iter(script)

    def sample(self, row: int, among: Among | None = None) -> Token:
        choice = self._model.sample(row, among)
        return next(self._script, choice)

    def close(self) -> None:
        self._model.close()


@contextmanager
def scripted(engine: Engine, scripts: Mapping[int, Script]) -> Iterator[None]:
    """While this lasts, requests with these seeds are answered with these tokens, whatever the weights say."""
    engine.call(lambda loop: _follow(loop, scripts))
    try:
        yield
    finally:
        engine.call(_unfollow)


def _follow(loop: Loop, scripts: Mapping[int, Script]) -> None:
    original = loop.backend.sampler

    def sampler(params: SamplingParams, history: Sequence[Token]) -> Sampler:
        chosen = original(params, history)
        script = scripts.get(params.seed) if params.seed is not None else None
        return chosen if script is None else ScriptedSampler(chosen, script)

    # The one method of the seam; everything else of the backend stays as it is.
    setattr(loop.backend, "sampler", sampler)  # noqa: B010


def _unfollow(loop: Loop) -> None:
    delattr(loop.backend, "sampler")
