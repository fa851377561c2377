"""The whole recipe at toy size on a CPU: from packages to a GGUF that agrees with PyTorch."""

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from fetch import HERE

TRAINED_ON = ("tabulate", "humanize", "schedule", "more-itertools")
HELD_OUT = ("tinydb", "loguru")


def run(script: str, *arguments: object) -> None:
    """Run one module of the recipe and stop at the first failure."""
    print(f"--- {script} {' '.join(map(str, arguments))}", flush=True)
    subprocess.run([sys.executable, str(HERE / script), *map(str, arguments)], check=True)


def prepare(work: Path) -> None:
    """Packages, corpus, vocabulary and token files."""
    run("fetch.py", "--folder", work / "downloads", "--names", *TRAINED_ON, *HELD_OUT)
    run(
        "corpus.py",
        "--downloads",
        work / "downloads",
        "--out",
        work / "corpus",
        "--record",
        work / "sources.csv",
        "--parts",
        2,
    )
    run(
        "tokenizer.py",
        "--corpus",
        work / "corpus",
        "--out",
        work / "tokenizer.json",
        "--vocabulary",
        1024,
        "--size",
        600_000,
    )
    run(
        "shards.py",
        "--corpus",
        work / "corpus",
        "--out",
        work / "shards",
        "--tokenizer",
        work / "tokenizer.json",
        "--jobs",
        1,
    )


def train(work: Path) -> None:
    """A toy model, stopped and taken up again, and one of attention alone distilled from it."""
    toy, draft = (("--config", HERE / "configs" / name) for name in ("toy.json", "toy-draft.json"))
    common = (
        "--shards",
        work / "shards",
        "--batch",
        4,
        "--length",
        256,
        "--no-compile",
    )
    first = (*toy, *common, "--out", work / "toy.pt", "--seconds", 60, "--mtp-from", 0.3)
    run("train.py", *first, "--steps", 20)
    run("train.py", *first, "--steps", 60)
    taught = ("--teacher", work / "toy.pt", "--teacher-config", HERE / "configs" / "toy.json")
    run(
        "train.py",
        *draft,
        *common,
        *taught,
        "--mtp-from",
        2,
        "--out",
        work / "taught.pt",
        "--seconds",
        20,
        "--steps",
        10,
    )


def again(work: Path) -> None:
    """From quantised files back to weights, and on from there."""
    draft = HERE / "configs" / "toy-draft.json"
    run("restore.py", work / "taught-q8_0.gguf", work / "restored-draft.pt", "--config", draft)
    config = HERE / "configs" / "toy.json"
    run("restore.py", work / "toy-q8_0.gguf", work / "restored.pt", "--config", config)
    given = ("--init", work / "restored.pt", "--shards", work / "shards", "--batch", 4, "--length", 256)
    run("train.py", "--config", config, *given, "--no-compile", "--out", work / "again.pt", "--steps", 5)


def imitate(work: Path) -> None:
    """Teach a draft model what was said, here anything, with the weights that Q4_0 has."""
    import numpy as np

    rng, n = np.random.default_rng(0), 4000
    best = rng.integers(0, 1024, (n, 16), np.int16)
    kind = np.arange(n) // 100 * 2 + (np.arange(n) % 100 > 40)
    chances = np.full((n, 16), np.log(1 / 16), np.float16)
    np.savez(work / "said.npz", tokens=best[:, 0], kind=kind.astype(np.int32), best=best, chances=chances)
    said = ("--said", work / "said.npz", "--held-out", work / "said.npz", "--out", work / "imitating.pt")
    config = ("--config", HERE / "configs" / "toy-draft.json")
    run("imitate.py", work / "taught-q8_0.gguf", *said, *config, "--seconds", 3, "--batch", 4)


def check_tokens(work: Path) -> None:
    """Cut held-out text and dialogues with both tokenisers."""
    from tokenizers import Tokenizer

    from corpus import read_archive
    from dialogues import dialogues
    from tokenizer import check

    rng = random.Random(0)
    documents = read_archive(work / "corpus" / "heldout-00.xz")
    texts = [text for _, text in documents]
    texts += [d.text() for kind, text in documents for d in dialogues(kind, text, rng)]
    count = check(Tokenizer.from_file(str(work / "tokenizer.json")), work / "toy-f16.gguf", texts)
    print(f"{count} tokens are cut the same by libllama")


def main() -> None:
    """Run everything and say how long it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=HERE / "work" / "smoke")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    begun, work = time.time(), args.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for old in (*work.glob("*.pt"), *work.glob("*.state")):
        old.unlink()
    prepare(work)
    train(work)
    tokenizer = ("--tokenizer", work / "tokenizer.json")
    for name in ("toy", "taught"):
        for kind in ("f32", "f16", "q8_0"):
            run("export.py", work / f"{name}.pt", work / f"{name}-{kind}.gguf", "--kind", kind, *tokenizer)
    again(work)
    imitate(work)
    run("export.py", work / "imitating.pt", work / "imitating-q4_0.gguf", "--kind", "q4_0", *tokenizer)
    run("export.py", work / "toy-f16.gguf", work / "toy-q4_k_m.gguf", "--kind", "q4_k_m")
    check_tokens(work)
    run("parity.py", work / "toy.pt", work / "toy-f16.gguf", *tokenizer)
    run("parity.py", work / "taught.pt", work / "taught-f16.gguf", *tokenizer, "--tokens", 60)
    small = ("--only", "losses", "--only", "edits", "--only", "speed", "--per-kind", 1, "--texts", 3)
    run("evaluate.py", work / "toy-q8_0.gguf", "--corpus", work / "corpus", *small)
    print(f"the recipe works from end to end ({time.time() - begun:.0f} s)")


if __name__ == "__main__":
    main()
