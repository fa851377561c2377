"""Where an engine's states survive a restart."""

from __future__ import annotations

import os
from pathlib import Path

from foretoken.cache.archive import Archive
from foretoken.cache.fingerprint import fingerprint
from foretoken.config import CacheConfig
from foretoken.engine.assembly import Assembly
from foretoken.llama import library

_FORMAT = 2
"""Of what is written of a sequence."""


def open_archive(config: CacheConfig, assembly: Assembly) -> Archive | None:
    """The folder for this model's states, if something is to be written at all."""
    if config.n_disk_bytes <= 0 or config.n_host_bytes <= 0 or not assembly.restores:
        return None
    return Archive(config.folder or _cache_folder(), identity(assembly))


def identity(assembly: Assembly) -> str:
    """What the bytes of this engine's states depend on."""
    context = assembly.context.config
    # The library writes how many separate pools of cells there are, and takes back nothing else.
    n_pools = 1 if context.unified else context.n_sequences + context.n_shadows
    settings = (context.kv_type_k, context.kv_type_v, context.flash_attention, n_pools, _FORMAT)
    return fingerprint(assembly.model.path, library.version(), *settings)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "foretoken" / "states"
