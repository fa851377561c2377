"""Edits of whole Python definitions: delete, move, annotate, decorate, import."""

import ast
import random
import re

from edits import Edit
from python_edits import HEADER
from snippets import C_FUNCTION, DEFINITIONS, dedent, extent, parse
from words import TYPES, request


def neighbours(code: str) -> tuple[list[str], list[tuple[str, int, int]]]:
    """The lines of the code and the extents of the definitions at its outermost level that has several."""
    tree = parse(code)
    lines = code.split("\n")
    if tree is None:
        return lines, []
    body = tree.body
    if len(body) == 1 and isinstance(body[0], ast.ClassDef):
        body = body[0].body
    return lines, [(n.name, *extent(n)) for n in body if isinstance(n, DEFINITIONS)]


DELETE = (
    "Delete the {what} `{name}`.", "Remove the {what} {name}.", "Remove `{name}`.",
    "Drop {name}, keep everything else.", "Delete {name}.", "Delete the {what} {name} from this file.",
    "Remove the {what} `{name}` completely.", "I no longer need {name}. Remove it.",
    "Get rid of the {what} `{name}`.", "Take out the {what} {name}.",
)  # fmt: skip


def delete(code: str, rng: random.Random) -> Edit | None:
    """Delete one of several definitions."""
    lines, found = neighbours(code)
    if len(found) < 2:
        return None
    name, a, b = rng.choice(found)
    if sum(n == name for n, _, _ in found) > 1:
        return None
    before, after = lines[:a], lines[b:]
    while after and not after[0].strip():
        after.pop(0)
    while not after and before and not before[-1].strip():
        before.pop()
    what = (
        "method"
        if lines[a][:1] == " "
        else "class"
        if re.match(r"class|@\w+\nclass", "\n".join(lines[a:]))
        else "function"
    )
    return Edit("delete", request(rng, DELETE, what=what, name=name), code, "\n".join(before + after))


def delete_method(code: str, rng: random.Random) -> Edit | None:
    """Delete one of several methods of one class among other things."""
    tree, lines = parse(code), code.split("\n")
    if tree is None:
        return None
    places = []
    for owner in (n for n in tree.body if isinstance(n, ast.ClassDef)):
        methods = [m for m in owner.body if isinstance(m, DEFINITIONS)]
        if len(owner.body) > 1:
            places += [(owner.name, m.name, *extent(m)) for m in methods]
    names = re.findall(r"\bdef (\w+)", code)
    places = [p for p in places if names.count(p[1]) == 1]
    if not places:
        return None
    owner_name, name, a, b = rng.choice(places)
    before, after = lines[:a], lines[b:]
    following = next((line for line in after if line.strip()), "")
    if following[:1] in ("", " "):
        after = after[next((i for i, line in enumerate(after) if line.strip()), len(after)) :]
    while before and not before[-1].strip() and (not after or not after[0].strip()):
        before.pop()  # it was the last of its class
    templates = (*DELETE, "Delete the method {name} of {owner}.", "Remove `{owner}.{name}`.")
    instruction = request(rng, templates, what="method", name=name, owner=owner_name)
    return Edit("delete", instruction, code, "\n".join(before + after))


def delete_function(code: str, rng: random.Random) -> Edit | None:
    """Delete one of several C functions."""
    found = [(m, n) for m in C_FUNCTION.finditer(code + "\n") if (n := re.search(r"(\w+)\s*\(", m.group()))]
    if len(found) < 2:
        return None
    match, name = rng.choice(found)
    after = (code[: match.start()] + code[match.end() :].lstrip("\n")).rstrip("\n")
    if len(re.findall(rf"\b{name.group(1)}\b", after)) > 3 or not after.strip():
        return None
    return Edit("delete", request(rng, DELETE, what="function", name=name.group(1)), code, after)


EXTRACT = (
    "Show only `{name}`.",
    "Extract the definition of `{name}`.",
    "Give me just the code of {name}.",
    "Print only {name}.",
)
MOVE = (
    "Move `{name}` to the end.",
    "Move the definition of {name} to the bottom.",
    "Reorder the code so that `{name}` comes last.",
)


def rearrange(code: str, rng: random.Random) -> Edit | None:
    """Show one definition alone, or move it to the end."""
    lines, found = neighbours(code)
    if len(found) < 2:
        return None
    i = rng.randrange(len(found) - 1)
    name, a, b = found[i]
    if sum(n == name for n, _, _ in found) > 1:
        return None
    if rng.random() < 0.5:
        return Edit("extract", request(rng, EXTRACT, name=name), code, dedent("\n".join(lines[a:b])))
    gap, following, end = lines[b : found[i + 1][1]], found[i + 1][1], found[-1][2]
    moved = [*lines[:a], *lines[following:end], *gap, *lines[a:b], *lines[end:]]
    return Edit("move", request(rng, MOVE, name=name), code, "\n".join(moved))


RETURN_TYPE = (
    "Add the return type `{type}` to `{name}`.",
    "Annotate {name} as returning {type}.",
    "{name} returns {type}. Annotate it.",
)
DECORATE = (
    "Add the decorator `{mark}` to {name}.",
    "Decorate {name} with {mark}.",
    "Put `{mark}` above {name}.",
)
ASYNC = (
    "Make `{name}` async.",
    "Turn {name} into an async function.",
    "Convert {name} to an async function.",
)
LOG = (
    "Add `{line}` as the first line of {name}.",
    "Insert `{line}` at the start of {name}.",
    "Begin {name} with `{line}`.",
)


def signature(code: str, rng: random.Random) -> Edit | None:
    """Annotate, decorate, make async, or log at the start of one function."""
    headers = [
        m for m in HEADER.finditer(code) if "->" not in m.group(5) and not m.group(2).startswith("async")
    ]
    if not headers:
        return None
    match, roll = rng.choice(headers), rng.random()
    name, indent = match.group(3), match.group(1)
    if len(re.findall(rf"def {name}\(", code)) > 1:
        return None
    head, tail = code[: match.start()], code[match.end() :]
    if roll < 0.35:
        kind = rng.choice(TYPES)
        after = f"{head}{match.group()[:-1]} -> {kind}:{tail}"
        return Edit("return type", request(rng, RETURN_TYPE, type=kind, name=name), code, after)
    if roll < 0.6:
        mark = rng.choice(
            ("@staticmethod", "@property", "@classmethod")
            if indent
            else ("@cache", "@timed", "@retry(3)", "@deprecated")
        )
        return Edit(
            "decorate",
            request(rng, DECORATE, mark=mark, name=name),
            code,
            f"{head}{indent}{mark}\n{match.group()}{tail}",
        )
    if roll < 0.75:
        return Edit(
            "async",
            request(rng, ASYNC, name=name),
            code,
            f"{head}{indent}async {match.group().lstrip()}{tail}",
        )
    if re.match(r"\s*[rbu]?(\"|')", tail[:200]):
        return None
    line = rng.choice(
        (
            f'print("{name}")',
            f'print("calling {name}")',
            f'logger.debug("{name} called")',
            f'logging.info("enter {name}")',
        )
    )
    return Edit(
        "log",
        request(rng, LOG, line=line, name=name),
        code,
        f"{head}{match.group()}\n{indent}    {line}{tail}",
    )


IMPORT = (
    "Add `{line}` at the top.",
    'Add the line "{line}" at the beginning.',
    "Add `{line}` as the first line.",
    "Start with `{line}`.",
)
MODULES = (
    "os sys re json logging time math random itertools functools collections typing pathlib subprocess"
).split()


def add_import(code: str, rng: random.Random) -> Edit | None:
    """Add an import as the first line."""
    line = rng.choice(
        (
            f"import {rng.choice(MODULES)}",
            "from pathlib import Path",
            "from typing import Any",
            "from dataclasses import dataclass",
        )
    )
    if line in code:
        return None
    gap = "\n" if re.match(r"(import|from) ", code) else "\n\n\n"
    return Edit("import", request(rng, IMPORT, line=line), code, f"{line}{gap}{code}")
