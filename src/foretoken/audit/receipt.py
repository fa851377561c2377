"""The receipt of an audit: what was compared, on what, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from foretoken import machine
from foretoken.audit.auditor import Outcome
from foretoken.audit.run import Audit
from foretoken.config import EngineConfig
from foretoken.llama import library


def receipt(audit: Audit) -> dict[str, Any]:
    """Everything needed to repeat an audit and to believe it."""
    return {
        **_head(),
        "model": _model(audit.config.model.path),
        "device": _device(audit.config),
        "settings": {
            "engine": audit.settings,
            "exact": audit.config.exact,
            "threads": audit.config.n_threads,
            "workloads": [workload.name for workload in audit.workloads],
            "max_tokens": audit.max_tokens,
            "quick": audit.quick,
            "stress": audit.stress,
            "left_out": list(audit.too_long),
        },
        **summary(audit.outcomes),
    }


def server_receipt(url: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The same for a server of which only the texts are seen."""
    return {**_head(), "server": url, **summary(outcomes)}


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The verdict, the counts, and every divergence."""
    diverged = sum(len(outcome.divergences) for outcome in outcomes)
    return {
        "verdict": "DIVERGED" if diverged else "MATCH",
        "counts": {
            "requests": sum(len(outcome.answers) for outcome in outcomes),
            "tokens": sum(n for outcome in outcomes for _, n in outcome.answers),
            "drafted": sum(outcome.n_drafted for outcome in outcomes),
            "accepted": sum(outcome.n_accepted for outcome in outcomes),
            "rewinds": sum(outcome.n_rewinds for outcome in outcomes),
            "diverged": diverged,
        },
        "variations": [
            {
                "name": outcome.variation,
                "requests": len(outcome.answers),
                "drafted": outcome.n_drafted,
                "accepted": outcome.n_accepted,
                "rewinds": outcome.n_rewinds,
                "divergences": [asdict(divergence) for divergence in outcome.divergences],
            }
            for outcome in outcomes
        ],
    }


def _head() -> dict[str, Any]:
    return {"foretoken": version("foretoken"), **machine.describe()}


def _model(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": digest}


def _device(config: EngineConfig) -> str:
    return "gpu" if library.supports_gpu() and config.model.n_gpu_layers != 0 else "cpu"
