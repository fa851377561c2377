"""What is measured, drawn by fixed seeds from the held-out packages: edits, long copies, texts for losses."""

import random
from pathlib import Path

import bugs
import definitions
import edits
import python_edits
from chat import Dialogue
from corpus import clean, is_readable, read_archive, wheel_files
from dialogues import editing, fence
from edits import Editor
from snippets import Snippet, python_snippets
from structured import extraction
from tool_calls import tool_call

KINDS: dict[str, tuple[Editor, ...]] = {
    "repeat": (edits.repeat,),
    "rename": (edits.rename,),
    "add parameter": (python_edits.add_parameter,),
    "remove parameter": (python_edits.remove_parameter,),
    "constant": (edits.constant,),
    "docstring": (python_edits.docstring,),
    "delete": (definitions.delete,),
    "fix": (bugs.fix,),
    "several turns": (
        edits.rename,
        edits.constant,
        python_edits.add_parameter,
        python_edits.docstring,
        definitions.delete,
    ),
    "other": (
        edits.string,
        edits.insert_line,
        edits.remove_line,
        definitions.signature,
        definitions.add_import,
    ),
}
# what the dialogues for the loss are drawn from; kept as it is so that numbers stay comparable
MIXED: list[tuple[Editor, float]] = [
    (edits.repeat, 6), (edits.rename, 18), (edits.constant, 26), (edits.string, 6), (edits.insert_line, 5),
    (edits.remove_line, 5), (edits.comment, 2), (bugs.fix, 16), (python_edits.add_parameter, 11),
    (python_edits.remove_parameter, 10), (python_edits.docstring, 10), (python_edits.document, 5),
    (definitions.delete, 24), (definitions.rearrange, 5), (definitions.signature, 8),
    (definitions.add_import, 3),
]  # fmt: skip


def held_out_snippets(corpus: Path, rng: random.Random) -> list[Snippet]:
    """Python snippets of the held-out packages in random order."""
    documents = [text for kind, text in read_archive(corpus / "heldout-00.xz") if kind == "p"]
    found = [s for text in documents for s in python_snippets(text, rng) if 150 < len(s.code) < 2500]
    rng.shuffle(found)
    return found


def edit_dialogues(corpus: Path, per_kind: int) -> dict[str, list[Dialogue]]:
    """The same number of dialogues of every kind, each from another snippet; drawn once by a fixed seed."""
    rng = random.Random(2024)
    pool = iter(held_out_snippets(corpus, rng))
    result: dict[str, list[Dialogue]] = {}
    for kind, editors in KINDS.items():
        result[kind] = []
        while len(result[kind]) < per_kind:
            turns = rng.choice((2, 3)) if kind == "several turns" else 1
            made = editing(next(pool), rng, turns, [(e, 1.0) for e in editors])
            if made and (kind != "several turns" or len(made.focus) > 1):
                result[kind].append(made)
    result["json extraction"] = [extraction(rng) for _ in range(per_kind)]
    result["tool call"] = [tool_call(rng) for _ in range(per_kind)]
    return result


def copy_dialogues(corpus: Path, count: int, lines: int = 100) -> list[Dialogue]:
    """Requests to repeat the first 100 lines of held-out files that fit the context twice."""
    rng = random.Random(100)
    result = []
    documents = [text for kind, text in read_archive(corpus / "heldout-00.xz") if kind == "p"]
    rng.shuffle(documents)
    for text in documents:
        code = "\n".join(text.split("\n")[:lines])
        if text.count("\n") < lines or len(code) > 5200 or len(result) == count:
            continue
        dialogue = Dialogue("repeat")
        dialogue.user(f"Repeat this file exactly.\n\n{fence(code, 'python')}")
        dialogue.answer(fence(code, "python"), code)
        result.append(dialogue)
    return result


def loss_texts(corpus: Path, count: int) -> dict[str, list[str]]:
    """Held-out pieces of code and whole dialogues, short enough for one context under any vocabulary."""
    rng = random.Random(7)
    documents = read_archive(corpus / "heldout-00.xz")
    rng.shuffle(documents)
    code = [text[:6000] for kind, text in documents if kind in "pc"][:count]
    talk = [
        d
        for s in held_out_snippets(corpus, rng)[: 3 * count]
        if (d := editing(s, rng, editors=MIXED)) and len(d.text()) < 6000
    ]
    return {"code": code, "dialogues": [d.text() for d in talk[:count]]}


def python_files(source: Path) -> list[str]:
    """The readable Python files of a wheel or below a folder, in the order of their names."""
    if source.suffix == ".whl":
        found = [(name, data.decode(errors="ignore")) for name, data in wheel_files(source)]
    else:
        found = [(str(path), path.read_text(errors="ignore")) for path in source.rglob("*.py")]
    texts = (clean(text) for name, text in sorted(found) if name.endswith(".py"))
    return [text for text in texts if is_readable(text)]


def foreign_texts(sources: list[Path], per_source: int) -> list[str]:
    """Beginnings of files from wheels or folders that are not in the corpus at all, drawn by a fixed seed."""
    rng = random.Random(11)
    texts = []
    for source in sources:
        files = python_files(source)
        texts += rng.sample(files, min(per_source, len(files)))
    return [text[:6000] for text in texts]
