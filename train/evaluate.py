"""Measure a GGUF with libllama on held-out packages: losses, exact edits by kind, long copies, samples."""

import argparse
import json
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

from chat import END, Dialogue, render
from fetch import HERE
from held_out import KINDS, copy_dialogues, edit_dialogues, foreign_texts, loss_texts
from parity import Library

PROMPTS = (
    "Write a quicksort in C.",
    "Write a binary search in Python.",
    "Rename `total` to `amount`.\n\n```python\n"
    "def add_tax(total, rate):\n    total = total * (1 + rate)\n    return round(total, 2)\n```",
    "Fix the bug in this code.\n\n```python\ndef mean(values)\n    return sum(values) / len(values)\n```",
    "Delete the function `sub`.\n\n```python\n"
    "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n\n\n"
    "def mul(a, b):\n    return a * b\n```",
    "Change MAX_RETRIES to 8.\n\n```python\nimport time\n\nMAX_RETRIES = 3\n\n\ndef retry(call):\n"
    "    for i in range(MAX_RETRIES):\n        try:\n            return call()\n"
    "        except OSError:\n            time.sleep(2**i)\n```",
    "What is the capital of France?",
    "Hello",
)
PLAIN_PROMPT = "import os\n\n\ndef read_lines(path):\n"


def greedy(library: Library, prompt: str, limit: int) -> str:
    """Continue a prompt with the likeliest token each time."""
    library.clear()
    tokens, stops = library.tokenize(prompt), set(library.tokenize("<|im_end|><|endoftext|>"))
    logits = library.decode(tokens, 0, rows=1)[-1]
    out: list[int] = []
    while len(out) < limit and len(tokens) + len(out) < 4095:
        token = int(np.argmax(logits))
        if token in stops:
            break
        out.append(token)
        logits = library.decode([token], len(tokens) + len(out) - 1)[-1]
    return library.text_of(out)


def exact(library: Library, dialogues: list[Dialogue]) -> int:
    """How many last answers come out exactly, token by token, and end there.

    One pass over prompt and answer: greedy decoding takes that path if every token is the likeliest there.
    """
    right = 0
    for dialogue in dialogues:
        prompt, wanted = library.tokenize(dialogue.prompt()), library.tokenize(dialogue.reference() + END)
        if len(prompt) + len(wanted) > 4096:
            continue
        library.clear()
        logits = library.decode(prompt + wanted, 0, rows=len(wanted) + 1)[:-1]
        right += int((logits.argmax(-1) == wanted).all())
    return right


def losses(library: Library, texts: list[str]) -> dict[str, float]:
    """Mean loss of texts, each after an end-of-text token."""
    total = count = size = 0.0
    for text in texts:
        tokens = library.tokenize("<|endoftext|>" + text)[:4096]
        library.clear()
        logits = library.decode(tokens, 0)[:-1].astype(np.float64)
        peak = logits.max(-1)
        log_sum = np.log(np.exp(logits - peak[:, None]).sum(-1)) + peak
        total += float((log_sum - logits[np.arange(len(logits)), tokens[1:]]).sum())
        count, size = count + len(tokens) - 1, size + len(text.encode())
    return {"nats_per_token": total / count, "nats_per_byte": total / size, "bytes": size}


def samples(library: Library) -> list[tuple[str, str]]:
    """Greedy continuations of fixed prompts."""
    result = [(p, greedy(library, render([{"role": "user", "content": p}], ask=True), 400)) for p in PROMPTS]
    return [*result, (PLAIN_PROMPT, greedy(library, PLAIN_PROMPT, 150))]


def speed(library: Library, count: int = 200) -> float:
    """Tokens per second of plain decoding, one at a time."""
    library.clear()
    token = int(np.argmax(library.decode(library.tokenize(PLAIN_PROMPT), 0, rows=1)[-1]))
    begun = time.perf_counter()
    for i in range(count):
        token = int(np.argmax(library.decode([token], 20 + i)[-1]))
    return count / (time.perf_counter() - begun)


def main() -> None:
    """Run the chosen measurements and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gguf", type=Path)
    parser.add_argument("--corpus", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument("--only", choices=("losses", "edits", "copies", "samples", "speed"), action="append")
    parser.add_argument("--code", type=Path, nargs="*", help="the loss on these wheels or folders instead")
    parser.add_argument("--per-source", type=int, default=2, help="files of each of them")
    parser.add_argument("--per-kind", type=int, default=20)
    parser.add_argument("--copies", type=int, default=40)
    parser.add_argument("--texts", type=int, default=150)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    wanted = args.only or ["losses", "edits", "copies", "samples", "speed"]
    library = Library(args.gguf, 4096, args.threads)
    report: dict[str, object] = {"model": args.gguf.name}
    if args.code:
        report["code"] = losses(library, foreign_texts(args.code, args.per_source))
        wanted = args.only or []
    if "losses" in wanted:
        report["losses"] = {
            name: losses(library, texts) for name, texts in loss_texts(args.corpus, args.texts).items()
        }
    if "edits" in wanted:
        table: dict[str, str] = defaultdict(str)
        right = 0
        for kind, dialogues in edit_dialogues(args.corpus, args.per_kind).items():
            found = exact(library, dialogues)
            right += found if kind in KINDS else 0
            table[kind] = f"{found}/{len(dialogues)}"
            print(kind, table[kind], flush=True)
        table["all edits"] = f"{right}/{args.per_kind * len(KINDS)}"
        report["edits"] = table
    if "copies" in wanted:
        copies = copy_dialogues(args.corpus, args.copies)
        report["copies"] = f"{exact(library, copies)}/{len(copies)}"
    if "samples" in wanted:
        report["samples"] = samples(library)
    if "speed" in wanted:
        report["tokens_per_second"] = speed(library)
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
