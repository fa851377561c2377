"""What drafters may borrow from the engine, opened only when one asks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from foretoken.config import EngineConfig, ModelConfig
from foretoken.engine.assembly import Assembly, assemble
from foretoken.errors import ConfigError
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.llama.mtp import MtpContext
from foretoken.memory import Memory
from foretoken.types import Token

_DRAFT_CONTEXT = 2048
"""A draft model reads only the end of a text: a longer context would be memory for nothing. One that was trained on
shorter texts gets no more than those."""


_BYTES_PER_THREAD = 32 << 20
"""A smaller model computes one row as fast on one core; on a busy machine several would wait for each other."""
_BYTES_PER_READER = 8 << 20
"""Likewise for the few rows that it is behind: a second thread, asleep since the target's step, wakes up too late."""


class EngineHost:
    """Implements `Host` for an assembled engine."""

    def __init__(self, config: EngineConfig, target: Assembly) -> None:
        self._config = config
        self._target = target
        self._draft: Assembly | None = None
        self._mtp: MtpContext | None = None

    @property
    def n_slots(self) -> int:
        return self._config.n_parallel

    @property
    def end_tokens(self) -> frozenset[Token]:
        return self._target.model.vocabulary.end_tokens

    def draft_model(self) -> tuple[Context, Memory]:
        """The draft model, with a slot for each of the target's."""
        if self._draft is None:
            self._draft = self._open_draft_model()
        return self._draft.context, self._draft.memory

    def _open_draft_model(self) -> Assembly:
        chosen = self._config.speculation.draft_model
        if chosen is None:
            raise ConfigError("no draft model was named; add -md FILE")
        model = Model(chosen)
        try:
            draft = replace(assemble(self._draft_settings(chosen, model), model), borrowed=False)
        except BaseException:
            model.close()
            raise
        draft.context.use_threads(
            _threads(model.path, self._config.n_threads, _BYTES_PER_THREAD),
            _threads(model.path, self._config.n_threads, _BYTES_PER_READER),
        )
        return draft

    def _draft_settings(self, chosen: ModelConfig, model: Model) -> EngineConfig:
        if not model.vocabulary.same_as(self._target.model.vocabulary):
            raise ConfigError(
                f"{model.path.name} has another vocabulary than {self._target.model.path.name}; "
                "a draft model must be of the same family"
            )
        # Drafts need no exactness: a wrong one is only a wrong guess.
        return replace(
            self._config,
            model=chosen,
            n_ctx=min(self._target.context.n_ctx, _DRAFT_CONTEXT, model.n_ctx_train or _DRAFT_CONTEXT),
            exact=False,
            memory="auto",
            checkpoints="auto",
            kv_type_k=None,
            kv_type_v=None,
            unified=None,
        )

    def mtp(self) -> MtpContext:
        """The model's own prediction layer, beside the context it reads from."""
        if self._mtp is None:
            self._mtp = MtpContext(self._target.context)
        return self._mtp

    def close(self) -> None:
        if self._mtp is not None:
            self._mtp.close()
            self._mtp = None
        if self._draft is not None:
            self._draft.close()
            self._draft = None


def _threads(model: Path, n_threads: int, bytes_each: int) -> int:
    return min(n_threads, 1 + model.stat().st_size // bytes_each)
