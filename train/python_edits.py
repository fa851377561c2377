"""Edits of Python code that follow its syntax: parameters, docstrings, definitions, annotations."""

import ast
import random
import re

from edits import Edit, count_word
from snippets import DEFINITIONS, parse
from words import PARAMETERS, request, sentence

HEADER = re.compile(r"^( *)((?:async )?def (\w+)\()([^()\n]*)(\)(?: ->[^\n]*)?:)$", re.M)

ADD_PARAMETER = (
    "Add a parameter `{new}` to `{name}`.", "Add a parameter {new} to {name}.",
    "Add the parameter `{new}` to the function {name}.",
    "Add an optional argument {word} (default {value}) to {name}.",
    "Give `{name}` a new parameter `{new}`.",
    "Add a keyword argument `{word}` with default `{value}` to {name}.",
    "{name} should take an extra parameter {new}.",
    "Add an argument `{word}` to `{name}` that defaults to {value}.",
    "Extend the signature of {name} with `{new}`.",
)  # fmt: skip


def add_parameter(code: str, rng: random.Random) -> Edit | None:
    """Add a parameter with a default at the end of a signature."""
    headers = [m for m in HEADER.finditer(code) if "*" not in m.group(4)]
    if not headers:
        return None
    match = rng.choice(headers)
    word, value = rng.choice(PARAMETERS), rng.choice(("None", "False", "True", "0", "1", "10", '""', "100"))
    existing = match.group(4).strip().rstrip(",")
    if count_word(code, word) or len(re.findall(rf"def {match.group(3)}\(", code)) > 1:
        return None
    new = f"{word}={value}"
    joined = f"{existing}, {new}" if existing else new
    after = code[: match.start(4)] + joined + code[match.end(4) :]
    instruction = request(rng, ADD_PARAMETER, new=new, name=match.group(3), word=word, value=value)
    return Edit("add parameter", instruction, code, after)


REMOVE_PARAMETER = (
    "Remove the parameter `{word}` from `{name}`.", "Remove the parameter {word} from {name}.",
    "Drop the `{word}` argument of {name}.", "Delete the argument {word} from the signature of {name}.",
    "`{name}` should no longer take `{word}`.", "Take the parameter {word} out of {name}.",
    "Remove {word} from the parameters of {name}.",
)  # fmt: skip


def remove_parameter(code: str, rng: random.Random) -> Edit | None:
    """Remove one parameter from a signature; the body stays as it is."""
    headers = [m for m in HEADER.finditer(code) if "[" not in m.group(4)]
    rng.shuffle(headers)
    for match in headers:
        parts = [p.strip() for p in match.group(4).split(",") if p.strip()]
        free = [
            p for p in parts if not p.startswith(("*", "/", "self", "cls")) and "'" not in p and '"' not in p
        ]
        if not free or len(re.findall(rf"def {match.group(3)}\(", code)) > 1:
            continue
        gone = rng.choice(free)
        word = re.split(r"[:=\s]", gone)[0]
        after = code[: match.start(4)] + ", ".join(p for p in parts if p != gone) + code[match.end(4) :]
        return Edit(
            "remove parameter", request(rng, REMOVE_PARAMETER, word=word, name=match.group(3)), code, after
        )
    return None


def docstring_of(node: ast.AST) -> ast.Expr | None:
    """The docstring statement of a definition that has more than that in its body."""
    body = getattr(node, "body", [])
    if len(body) < 2 or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Constant):
        return None
    return body[0] if isinstance(body[0].value.value, str) else None


DOCSTRING = (
    'Add the docstring "{text}" to `{name}`.', "Add a docstring to {name} that says: {text}",
    'Add the docstring "{text}" to {name}.', 'Give `{name}` the docstring "{text}"',
    "Document {name} with the docstring `{text}`.", 'Add a docstring to `{name}`: "{text}"',
)  # fmt: skip


def docstring(code: str, rng: random.Random) -> Edit | None:
    """Add a given docstring to a function that has none."""
    bare = [
        m for m in HEADER.finditer(code) if not re.match(r"\s*[rbu]?(\"|')", code[m.end() : m.end() + 200])
    ]
    if not bare:
        return None
    match, text = rng.choice(bare), sentence(rng)
    after = f'{code[: match.end()]}\n{match.group(1)}    """{text}"""{code[match.end() :]}'
    return Edit("docstring", request(rng, DOCSTRING, text=text, name=match.group(3)), code, after)


DOCUMENT = (
    "Add a docstring to `{name}`.",
    "Add a docstring.",
    "Please add a docstring to {name}.",
    "Write a docstring for {name}.",
)
UNDOCUMENT = (
    "Remove the docstring of `{name}`.",
    "Remove the docstring from {name}.",
    "Delete the docstring of {name}.",
)


def document(code: str, rng: random.Random) -> Edit | None:
    """Write the docstring that the code had, or take it away."""
    tree = parse(code)
    nodes = [n for n in ast.walk(tree) if isinstance(n, DEFINITIONS) and docstring_of(n)] if tree else []
    if not nodes:
        return None
    node = rng.choice(nodes)
    statement = docstring_of(node)
    assert statement is not None and statement.end_lineno is not None
    lines = code.split("\n")
    if statement.end_lineno - statement.lineno > 8 or lines[statement.lineno - 1].strip()[:1] not in "\"'r":
        return None
    rest = lines[statement.end_lineno :]
    while rest and not rest[0].strip():
        rest.pop(0)
    bare = "\n".join([*lines[: statement.lineno - 1], *rest])
    if rng.random() < 0.4:
        return Edit("remove docstring", request(rng, UNDOCUMENT, name=node.name), code, bare)
    return Edit("document", request(rng, DOCUMENT, name=node.name), bare, code)
