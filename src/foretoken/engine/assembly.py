"""From settings to a loaded model, a fitting context and the memory that was found to work in it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from foretoken.backend import Backend
from foretoken.config import DEFAULT_CONTEXT, ContextConfig, EngineConfig
from foretoken.errors import ConfigError, ContextError, EncoderOnly
from foretoken.llama import library
from foretoken.llama.context import Context
from foretoken.llama.model import Model
from foretoken.memory import KINDS, Checkpoint, Memory, Needs
from foretoken.memory.probe import N_CTX, Trial, candidates, choose, probe, refuse_wrong_choice
from foretoken.speculation.sizing import MemoryCost

log = logging.getLogger("foretoken.engine")

_EXACT_KEYS = ("q8_0", "bf16")
"""Types of keys whose kernels take one path at any number of rows; the second where the first does not fit."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """An engine's parts, and how they were chosen."""

    model: Model
    context: Context
    memory: Memory
    exact: bool
    trials: tuple[Trial, ...]
    alone: bool = False
    """Exactness was insisted on for a model whose rows have other bits in company."""
    borrowed: bool = False
    """Whether the model is somebody else's, and stays when this is closed."""

    def describe(self) -> str:
        """What runs and what it guarantees, in one line."""
        config = self.context.config
        promise = "fast: near ties may be decided differently when batches differ"
        if self.alone:
            promise = "exact: weights of this kind give other bits in company, so one request at a time and no drafts"
        elif self.exact:
            promise = "exact: a token does not depend on what shares its batch"
        return (
            f"{self.model.name}, {config.n_sequences} x {config.n_ctx} tokens, "
            f"kv {config.kv_type_k}/{config.kv_type_v}, memory {self.memory.name}, "
            f"{config.n_threads} threads; {promise}"
        )

    @property
    def _trial(self) -> Trial:
        return next(trial for trial in self.trials if trial.memory == self.memory.name)

    @property
    def memory_cost(self) -> MemoryCost:
        """What taking tokens back was found to cost."""
        return MemoryCost(self._trial.protect_ms, self._trial.rewind_ms, replays=self.memory.replays)

    @property
    def restores(self) -> bool:
        """Whether states can be kept outside the context."""
        return self._trial.restores

    def close(self) -> None:
        self.context.close()
        if not self.borrowed:
            self.model.close()


def assemble(config: EngineConfig, borrowed: Model | None = None) -> Assembly:
    """Load the model unless it is borrowed, find the memory that works, open the context."""
    _check(config)
    if borrowed is not None:
        return replace(_kept_exact(config, borrowed), borrowed=True)
    model = Model(config.model)
    try:
        return _kept_exact(config, model)
    except BaseException:
        model.close()
        raise


def _kept_exact(config: EngineConfig, model: Model) -> Assembly:
    """What was assembled; where exactness is insisted on and company would spoil it, without company."""
    assembly = _assemble(config, model)
    if not config.exact or assembly.exact:
        return assembly
    # What was cached by wide batches differs too: deciding near ties over again would not be enough.
    assembly.context.close()
    return replace(_assemble(replace(config, n_parallel=1), model), exact=True, alone=True)


def try_memories(config: EngineConfig, model: Model) -> list[Trial]:
    """What every kind of memory would cost on a loaded model, for one slot; refused ones say why."""
    exact = is_exact(config)
    base = _context_config(config, model, exact)
    trials = []
    for kind in KINDS.values():
        if reason := kind.refusal(model.recurrent, 1):
            trials.append(Trial(kind.name, works=False, reason=reason))
        else:
            trials += probe(lambda needs: _small(model, base, needs), [kind], 1, config.n_rollback)
    return trials


def _check(config: EngineConfig) -> None:
    for name in ("n_parallel", "n_batch", "n_ubatch", "n_threads", "prefill_chunk", "max_queue"):
        if getattr(config, name) < 1:
            raise ConfigError(f"{name} must be at least 1, not {getattr(config, name)}")
    if config.n_ctx is not None and config.n_ctx < 1:
        raise ConfigError(f"the context must hold at least 1 token, not {config.n_ctx}")
    if config.n_batch < config.n_parallel:
        raise ConfigError(f"a batch of {config.n_batch} rows cannot serve {config.n_parallel} slots")


def _assemble(config: EngineConfig, model: Model) -> Assembly:
    if not model.generates:
        raise EncoderOnly(f"{model.path.name} is an encoder: it makes embeddings (foretoken serve), not text")
    exact = is_exact(config)
    base = _context_config(config, model, exact)
    kinds = _kinds(config, model, exact)
    trials = probe(lambda needs: _small(model, base, needs), kinds, config.n_parallel, config.n_rollback)
    chosen = choose(trials, exact)
    for trial in trials:
        log.debug("%s", trial)
    kind = KINDS[chosen.memory]
    context = Context(model, _with_needs(base, kind.needs(config.n_parallel, config.n_rollback)))
    memory = kind(context)
    alone = config.n_parallel == 1 or not context.unified
    return Assembly(model, context, memory, exact and chosen.exact and alone, tuple(trials))


def _kinds(config: EngineConfig, model: Model, exact: bool) -> list[type[Memory]]:
    """The memories to try: the one that was forced, or those that fit every wish."""
    if config.memory != "auto":
        refuse_wrong_choice(config.memory, model.recurrent, config.n_parallel)
        return [KINDS[config.memory]]
    kinds = candidates(model.recurrent, config.n_parallel, exact)
    if model.recurrent and config.checkpoints != "auto":
        kinds = [kind for kind in kinds if issubclass(kind, Checkpoint) == (config.checkpoints == "on")]
    if config.unified is False:
        kinds = [kind for kind in kinds if kind.needs(config.n_parallel, 0).unified is not True]
    if not kinds:
        raise ConfigError(
            "no memory is left to take tokens back with: several slots need state checkpoints to be exact; "
            "allow them, or use --no-exact or one slot"
        )
    return kinds


def is_exact(config: EngineConfig) -> bool:
    """Whether a result may not depend on what shares its batch."""
    return config.exact if config.exact is not None else not _on_gpu(config)


def _on_gpu(config: EngineConfig) -> bool:
    return library.supports_gpu() and config.model.n_gpu_layers != 0


def _context_config(config: EngineConfig, model: Model, exact: bool) -> ContextConfig:
    settings = ContextConfig(
        n_ctx=config.n_ctx or min(model.n_ctx_train or DEFAULT_CONTEXT, DEFAULT_CONTEXT),
        n_sequences=config.n_parallel,
        n_batch=config.n_batch,
        n_ubatch=config.n_ubatch,
        n_threads=config.n_threads,
        flash_attention="on" if exact and config.flash_attention == "auto" else config.flash_attention,
        unified=bool(config.unified),
    )
    pairs = _kv_types(config) if exact else [(config.kv_type_k or "f16", config.kv_type_v or "f16")]
    return _fitting(model, [replace(settings, kv_type_k=keys, kv_type_v=values) for keys, values in pairs])


def _kv_types(config: EngineConfig) -> list[tuple[str, str]]:
    """Types of keys and values that are exact together, the best first, with what a person chose among them.

    Values of f16 are added up without unpacking, which makes wide batches behind long contexts a third faster; beside
    keys of the same type they would take another path for single rows. GPUs have no kernels for unequal types.
    """

    def values(keys: str) -> str:
        return keys if _on_gpu(config) else _EXACT_KEYS[0] if keys == "f16" else "f16"

    chosen = (config.kv_type_k,) if config.kv_type_k else _EXACT_KEYS
    return [(keys, config.kv_type_v or values(keys)) for keys in chosen]


def _fitting(model: Model, options: Sequence[ContextConfig]) -> ContextConfig:
    """The first of these settings that fits the model's heads."""
    for option in options[:-1]:
        try:
            with _small(model, option, Needs()):
                return option
        except ContextError as error:
            log.debug("kv types %s/%s do not fit: %s", option.kv_type_k, option.kv_type_v, error)
    return options[-1]


def _with_needs(config: ContextConfig, needs: Needs) -> ContextConfig:
    return replace(
        config,
        unified=config.unified if needs.unified is None else needs.unified,
        n_shadows=needs.n_shadows,
        n_rollback=needs.n_rollback,
    )


@contextmanager
def _small(model: Model, config: ContextConfig, needs: Needs) -> Iterator[Backend]:
    """A context just large enough to experiment in."""
    small = replace(config, n_ctx=N_CTX, n_batch=N_CTX, n_ubatch=N_CTX, n_outputs=1)
    with Context(model, _with_needs(small, needs)) as context:
        yield context
