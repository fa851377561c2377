"""Every setting and its default: the only place with defaults."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

MemoryChoice = Literal["auto", "trim", "fork", "checkpoint", "checkpoint-host", "ring"]
FlashAttention = Literal["auto", "on", "off"]
Pooling = Literal["none", "mean", "cls", "last", "rank"]

DEFAULT_CONTEXT = 8192
"""Per slot, where the model was trained for at least that much."""
MAX_QUEUE = 1024
"""Requests that may wait for a slot."""


def available_cores() -> int:
    """The cores this process may use: more threads than that spin at barriers and crawl."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def total_memory() -> int:
    """Bytes of memory that this machine, or the container this runs in, has."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 8 << 30
    with contextlib.suppress(OSError, ValueError):
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """How a GGUF is loaded."""

    path: Path
    n_gpu_layers: int = -1
    """Layers kept on the GPU; negative is all. Without a GPU in the build it does nothing."""
    load_mtp: bool = False
    vocab_only: bool = False
    """Only the vocabulary and the metadata: enough to tokenise and to read the chat template."""


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """How a context over a model is made; `n_ctx` counts the tokens of one sequence."""

    n_ctx: int
    n_sequences: int = 1
    n_batch: int = 2048
    n_ubatch: int = 512
    n_outputs: int = 128
    """Rows of one batch that may ask for logits; each costs a vocabulary of floats."""
    n_threads: int = field(default_factory=available_cores)
    flash_attention: FlashAttention = "auto"
    kv_type_k: str = "f16"
    kv_type_v: str = "f16"
    unified: bool = False
    n_shadows: int = 0
    """Sequences that only hold recurrent states: they need no attention cells of their own."""
    n_rollback: int = 0
    """States kept inside the graph for the ring memory."""


@dataclass(frozen=True, slots=True)
class SpeculationConfig:
    """Which drafters guess, and within what bounds."""

    drafters: tuple[str, ...] = ("auto",)
    """Names as `foretoken drafters` lists them; "auto" is all that help this model, () is off."""
    plan: Literal["adaptive", "fixed"] = "adaptive"
    """Adaptive verifies what is expected to pay; fixed verifies whatever is offered, within the bounds."""
    n_tries: int | None = None
    """Drafts in a row that may lose before their drafter rests; None leaves it to the ledger."""
    n_max: int = 64
    n_min: int = 0
    p_min: float = 0.0
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Keyword arguments for single drafters, by name."""
    draft_model: ModelConfig | None = None


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """What is kept of prompts and answers when their slot is needed for others."""

    n_host_bytes: int = field(default_factory=lambda: min(8 << 30, total_memory() // 8))
    """Of the machine's memory at most; 0 keeps only what slots still hold."""
    n_disk_bytes: int = 0
    """Likewise of a disk, where it survives a restart; 0 writes nothing."""
    folder: Path | None = None
    """Where on disk; None is the user's cache folder."""
    n_checkpoints: int = 32
    """States kept while reading one prompt at most (models with a recurrent state)."""
    reuse: bool = True
    """Whether a prompt may begin with what was computed for an earlier one."""
    gap: int = 24
    """Tokens that are rather read again than kept apart."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a person may choose; None means that foretoken chooses."""

    model: ModelConfig
    n_parallel: int = 1
    n_ctx: int | None = None
    n_batch: int = 2048
    n_ubatch: int = 512
    n_threads: int = field(default_factory=available_cores)
    flash_attention: FlashAttention = "auto"
    kv_type_k: str | None = None
    kv_type_v: str | None = None
    unified: bool | None = None
    exact: bool | None = None
    """Bit-exact whatever shares the batch. None tries on a CPU and not on a GPU; True insists, whatever it costs."""
    memory: MemoryChoice = "auto"
    checkpoints: Literal["auto", "on", "off"] = "auto"
    """Whether an automatic choice of memory must, or must not, be a state checkpoint."""
    n_rollback: int = 8
    prefill_chunk: int = 256
    """Prompt tokens decoded in one step while other slots are generating."""
    max_queue: int = MAX_QUEUE
    max_replay: int = 24
    """Pending tokens beyond which nothing is drafted: a cut would decode all of them again."""
    speculation: SpeculationConfig = field(default_factory=SpeculationConfig)
    cache: CacheConfig = field(default_factory=CacheConfig)
    embeddings: bool = False
    """Offer embeddings beside answers; a model that cannot answer offers them anyway."""
    pooling: Pooling | Literal["auto"] = "auto"
    """How the vectors of a text's tokens become one; auto is the model's own way."""
    check_integrity: bool = False
    """Prove after every step that memory holds what the engine believes (slow: for debugging)."""
