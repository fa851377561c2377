"""Makes merges.txt from the text of Python's own standard library; run by hand, the result is committed."""

import re
import sysconfig
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

from .vocabulary import MERGES_FILE, N_MERGES, byte_letters

Pair = tuple[str, str]

# The qwen35 splitting rule, in the words Python's re has.
SPLIT = re.compile(
    r"'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\w]?[^\W\d_]+|\d"
    r"| ?[^\s\w]+[\r\n]*|_+|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FOLDERS = (".", "json", "logging", "http", "email", "asyncio", "collections", "concurrent", "unittest")
RARE = 8  # words seen less often do not take part


def corpus_words() -> dict[tuple[str, ...], int]:
    """Counts the words of the corpus, each spelt in byte letters."""
    stdlib = Path(sysconfig.get_paths()["stdlib"])
    counts: Counter[str] = Counter()
    for folder in FOLDERS:
        for source in sorted((stdlib / folder).glob("*.py")):
            counts.update(SPLIT.findall(source.read_text(encoding="utf-8", errors="ignore")))
    letters = byte_letters()
    return {tuple(letters[b] for b in word.encode()): n for word, n in sorted(counts.items()) if n >= RARE}


def apply(word: list[str], pair: Pair) -> list[str]:
    """Joins every occurrence of the pair in the word."""
    joined: list[str] = []
    i = 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            joined.append(word[i] + word[i + 1])
            i += 2
        else:
            joined.append(word[i])
            i += 1
    return joined


def train(n_merges: int) -> list[Pair]:
    """Learns the merges by joining the most frequent pair, ties broken by spelling."""
    counted = corpus_words()
    words = [list(word) for word in counted]
    counts = list(counted.values())
    frequency: Counter[Pair] = Counter()
    where: defaultdict[Pair, set[int]] = defaultdict(set)
    for w, word in enumerate(words):
        for pair in pairwise(word):
            frequency[pair] += counts[w]
            where[pair].add(w)
    merges: list[Pair] = []
    while len(merges) < n_merges:
        best = max(frequency, key=lambda pair: (frequency[pair], pair))
        merges.append(best)
        for w in sorted(where.pop(best)):
            for pair in pairwise(words[w]):
                frequency[pair] -= counts[w]
            words[w] = apply(words[w], best)
            for pair in pairwise(words[w]):
                frequency[pair] += counts[w]
                where[pair].add(w)
        del frequency[best]
    return merges


if __name__ == "__main__":
    MERGES_FILE.write_text("".join(f"{a} {b}\n" for a, b in train(N_MERGES)), encoding="utf-8")
