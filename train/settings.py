"""What a training run can be told on the command line."""

import argparse
from dataclasses import dataclass
from pathlib import Path

from fetch import HERE


@dataclass(frozen=True, slots=True)
class Settings:
    """One run: shapes, data, time, rates and weights."""

    config: Path
    out: Path
    shards: Path
    seconds: float
    batch: int
    length: int
    muon_rate: float
    adam_rate: float
    weight_decay: float
    dialogue_share: float
    warm_steps: int
    decay_share: float
    mtp_from: float
    save_every: float
    compile: bool
    teacher: Path | None
    teacher_config: Path | None
    steps: int
    init: Path | None
    answer_weight: float
    focus_weight: float


def read_settings() -> Settings:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--config", type=Path, required=True)
    add("--out", type=Path, required=True)
    add("--shards", type=Path, default=HERE / "work" / "shards")
    add("--seconds", type=float, default=1200)
    add("--batch", type=int, default=32)
    add("--length", type=int, default=4096)
    add("--muon-rate", type=float, default=3e-3)
    add("--adam-rate", type=float, default=2.5e-3)
    add("--weight-decay", type=float, default=0.05)
    add("--dialogue-share", type=float, default=0.38)
    add("--warm-steps", type=int, default=100)
    add("--decay-share", type=float, default=0.6)
    add("--mtp-from", type=float, default=0.58)
    add("--save-every", type=float, default=120)
    add("--compile", action=argparse.BooleanOptionalAction, default=True)
    add("--teacher", type=Path, help="weights to distil from; waits until they are there")
    add("--teacher-config", type=Path)
    add("--steps", type=int, default=10**9)
    add("--answer-weight", type=float, default=3)
    add("--focus-weight", type=float, default=8)
    add("--init", type=Path, help="weights to start from, with a fresh optimiser")
    return Settings(**vars(parser.parse_args()))
