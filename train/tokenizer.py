"""Train the byte-level BPE and check that libllama cuts text exactly as it does."""

import argparse
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from chat import SPECIALS, TOOL_MARKS
from corpus import read_archive
from dialogues import dialogues
from fetch import HERE

PATH = HERE / "tokenizer.json"
# libllama's `qwen35` pre-tokeniser
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def sample(archives: list[Path], size: int, rng: random.Random) -> Iterator[str]:
    """Text from all archives, mostly raw documents and some dialogues, up to a number of characters."""
    share = size // len(archives)
    for path in archives:
        documents = read_archive(path)
        rng.shuffle(documents)
        taken = 0
        for kind, text in documents:
            piece = text[:20_000]
            if rng.random() < 0.06:
                piece += "".join(d.text() for d in list(dialogues(kind, text[:6000], rng))[:3])
            for mark in SPECIALS + TOOL_MARKS:
                piece = piece.replace(mark, "")
            yield piece
            taken += len(piece)
            if taken > share:
                break


def train(archives: list[Path], vocabulary: int, size: int) -> Tokenizer:
    """Learn the merges; special tokens come first, tool marks right after them."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PATTERN), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(TOOL_MARKS),
        special_tokens=list(SPECIALS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample(archives, size, random.Random(0)), trainer)
    tokenizer.add_tokens([AddedToken(mark, normalized=False) for mark in TOOL_MARKS])
    return tokenizer


def check(tokenizer: Tokenizer, gguf: Path, texts: list[str]) -> int:
    """Compare with libllama token by token; returns how many were compared, stops at a difference."""
    from llama_cpp import Llama

    model: Any = Llama(str(gguf), vocab_only=True, verbose=False)
    compared = 0
    for text in texts:
        ours = tokenizer.encode(text, add_special_tokens=False).ids
        theirs = model.tokenize(text.encode(), add_bos=False, special=True)
        if ours != theirs:
            at = next(
                (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b),
                min(len(ours), len(theirs)),
            )
            raise SystemExit(f"tokens differ at {at}: {tokenizer.decode(ours[max(0, at - 5) : at + 5])!r}")
        compared += len(ours)
    return compared


def main() -> None:
    """Train, save, and report how many bytes a token holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument("--out", type=Path, default=PATH)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--size", type=int, default=40_000_000)
    args = parser.parse_args()
    tokenizer = train(sorted(args.corpus.glob("train-*.xz")), args.vocabulary, args.size)
    args.out.write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, indent=0) + "\n")
    held_out = [text for _, text in read_archive(args.corpus / "heldout-00.xz")[:200]]
    tokens = sum(len(e.ids) for e in tokenizer.encode_batch(held_out))
    print(
        tokenizer.get_vocab_size(),
        "tokens;",
        f"{sum(len(t.encode()) for t in held_out) / tokens:.3f} bytes per token",
    )


if __name__ == "__main__":
    main()
