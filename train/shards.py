"""Turn corpus archives into token files, many processes side by side: plain text with FIM, and dialogues."""

import argparse
import os
import random
import warnings
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

import dialogues
from chat import END_OF_TEXT, FIM, Dialogue
from corpus import read_archive
from fetch import HERE

ANSWER, FOCUS = 1 << 14, 1 << 15  # set on tokens whose loss counts more; the vocabulary leaves both bits free
NOISE = ANSWER | FOCUS  # set on tokens whose loss does not count
FIM_SHARE = 0.15
DOCUMENTS_PER_SHARD = 300
Tokens = NDArray[np.uint16]


def fim_parts(text: str, rng: random.Random) -> tuple[str, str, str] | None:
    """Cut a window of a document into prefix, suffix and middle, by lines or by characters."""
    lines = text.splitlines(keepends=True)
    at = rng.randrange(len(lines))
    window = lines[max(0, at - rng.randint(5, 120)) : at + rng.randint(5, 120)]
    if len(window) < 4:
        return None
    if rng.random() < 0.6:
        i = rng.randrange(len(window))
        j = min(len(window), i + rng.randint(1, 12))
        return "".join(window[:i]), "".join(window[j:]), "".join(window[i:j])
    joined = "".join(window)
    i = rng.randrange(len(joined))
    j = min(len(joined), i + rng.randint(5, 300))
    return joined[:i], joined[j:], joined[i:j]


def plain_tokens(documents: list[tuple[str, str]], tokenizer: Tokenizer, rng: random.Random) -> Tokens:
    """Documents one after another, with a share of them again as fill-in-the-middle."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    marks = [tokenizer.token_to_id(mark) for mark in FIM]
    pieces = [[*e.ids, end] for e in tokenizer.encode_batch([text for _, text in documents])]
    cut = [p for _, text in documents if rng.random() < FIM_SHARE and (p := fim_parts(text, rng))]
    encoded = iter(tokenizer.encode_batch([part for parts in cut for part in parts]))
    for _ in cut:
        pieces.append([t for mark in marks for t in (mark, *next(encoded).ids)] + [end])
    rng.shuffle(pieces)
    return np.concatenate([np.array(piece, dtype=np.uint16) for piece in pieces])


def dialogue_tokens(made: list[Dialogue], tokenizer: Tokenizer) -> list[Tokens]:
    """Tokens of each dialogue, marked where it answers and where its answers are decided."""
    end = tokenizer.token_to_id(END_OF_TEXT)
    marked = [dialogue.spans() for dialogue in made]
    result = []
    encoded = tokenizer.encode_batch([m[0] for m in marked])
    for dialogue, encoding, (_, answers, focus) in zip(made, encoded, marked, strict=True):
        tokens = np.array([*encoding.ids, end], dtype=np.uint16)
        marks = np.zeros_like(tokens)
        marks[:-1] = NOISE if dialogue.noise else 0
        for spans, mark in ((answers, ANSWER), (focus, FOCUS)):
            for a, b in spans:
                first, last = encoding.char_to_token(a), encoding.char_to_token(b - 1)
                if first is not None and last is not None:
                    marks[first : last + 1] = mark
        result.append(tokens | marks)
    return result


def make_dialogues(
    documents: list[tuple[str, str]], tokenizer: Tokenizer, wanted: int, rng: random.Random
) -> Tokens:
    """Dialogues from random documents until there are enough tokens of them."""
    made: list[Tokens] = []
    total = 0
    for kind, text in rng.choices(documents, k=20 * len(documents)):
        found = list(dialogues.dialogues(kind, text, rng))
        rng.shuffle(found)
        new = dialogue_tokens(found[:40], tokenizer)
        made += new
        total += sum(map(len, new))
        if total > wanted:
            break
    rng.shuffle(made)  # type: ignore[arg-type]
    return np.concatenate(made) if made else np.zeros(0, dtype=np.uint16)


def write(tokens: Tokens, path: Path) -> None:
    """Save so that a reader never sees half a file."""
    partial = path.with_name("." + path.name)
    np.save(partial, tokens)
    partial.rename(path)


def convert(task: tuple[Path, Path, Path, float, int]) -> tuple[int, int]:
    """Convert one archive; dialogues come to a ratio of its plain tokens."""
    archive, out, tokenizer_path, ratio, seed = task
    warnings.filterwarnings("ignore", category=SyntaxWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    rng = random.Random(f"{archive.name} {seed}")
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    documents = read_archive(archive)
    rng.shuffle(documents)
    plain = talk = 0
    for start in range(0, len(documents), DOCUMENTS_PER_SHARD):
        part = documents[start : start + DOCUMENTS_PER_SHARD]
        name = f"{archive.stem}-{start:06}.npy"
        tokens = plain_tokens(part, tokenizer, rng)
        write(tokens, out / f"plain-{name}")
        spoken = make_dialogues(part, tokenizer, int(len(tokens) * ratio), rng)
        write(spoken, out / f"dialogue-{name}")
        plain, talk = plain + len(tokens), talk + len(spoken)
    return plain, talk


def convert_held_out(archive: Path, out: Path, tokenizer_path: Path) -> None:
    """Two files of held-out tokens for the losses that training reports."""
    rng = random.Random(0)
    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    documents = read_archive(archive)
    rng.shuffle(documents)
    write(plain_tokens(documents[:150], tokenizer, rng), out / "heldout-plain.npy")
    write(make_dialogues(documents[:150], tokenizer, 300_000, rng), out / "heldout-dialogue.npy")


def main() -> None:
    """Convert the held-out archive, then all others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument("--out", type=Path, default=HERE / "work" / "shards")
    parser.add_argument("--tokenizer", type=Path, default=HERE / "tokenizer.json")
    parser.add_argument("--ratio", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    tasks = [
        (path, args.out, args.tokenizer, args.ratio, args.seed)
        for path in sorted(args.corpus.glob("train-*.xz"))
    ]
    with Pool(min(args.jobs, len(tasks) + 1)) as pool:
        for path in args.corpus.glob("heldout-*.xz"):
            pool.apply_async(convert_held_out, (path, args.out, args.tokenizer))
        counts = list(pool.imap_unordered(convert, tasks))
    plain, talk = (sum(part) / 1e6 for part in zip(*counts, strict=True))
    print(f"{plain:.1f}M plain tokens, {talk:.1f}M of dialogues")


if __name__ == "__main__":
    main()
