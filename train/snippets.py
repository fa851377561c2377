"""Pieces of real code to edit: functions, classes, groups of definitions, files and windows of files."""

import ast
import random
import re
from dataclasses import dataclass

LONGEST = 5600


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of source text and the language of its fence."""

    language: str
    code: str


def dedent(code: str) -> str:
    """Shift code left to its outermost indentation."""
    lines = code.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] if line.strip() else "" for line in lines)


def extent(node: ast.AST) -> tuple[int, int]:
    """First and last line (half open, from 0) of a definition, decorators included."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])  # type: ignore[attr-defined]
    return first - 1, node.end_lineno  # type: ignore[attr-defined]


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def parse(code: str) -> ast.Module | None:
    """Parse Python, or None where it is not Python."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def single_definitions(lines: list[str], tops: list[ast.AST], rng: random.Random) -> list[str]:
    """Top-level functions and classes, and some methods on their own."""
    found = []
    for node in tops:
        a, b = extent(node)
        found.append("\n".join(lines[a:b]))
        if isinstance(node, ast.ClassDef):
            methods = [m for m in node.body if isinstance(m, DEFINITIONS[:2])]
            for method in methods:
                if rng.random() < 0.3:
                    a, b = extent(method)
                    found.append(dedent("\n".join(lines[a:b])))
    return [code for code in found if 80 < len(code) < LONGEST]


def groups(lines: list[str], tops: list[ast.AST], imports: str, rng: random.Random) -> list[str]:
    """Runs of neighbouring definitions, like small files."""
    found, i = [], 0
    while i < len(tops):
        chosen: list[str] = []
        wanted, budget = rng.choice((2, 3, 4, 6, 8)), rng.choice((1500, 3000, LONGEST))
        while i < len(tops) and len(chosen) < wanted:
            a, b = extent(tops[i])
            text = "\n".join(lines[a:b])
            if sum(map(len, chosen)) + len(text) > budget:
                break
            chosen.append(text)
            i += 1
        if len(chosen) < 2:
            i += 1
            continue
        head = imports + "\n\n\n" if imports and rng.random() < 0.6 else ""
        found.append(head + "\n\n\n".join(chosen))
    return found


def windows(source: str, rng: random.Random) -> list[str]:
    """Stretches of whole lines from anywhere in a file, up to the longest that fits a dialogue twice."""
    lines = source.rstrip("\n").split("\n")
    found, i = [], 0
    while i < len(lines):
        count = rng.choice((12, 25, 40, 60, 80, 100, 100, 120, 140))
        text = "\n".join(lines[i : i + count]).strip("\n")
        i += count + rng.randrange(40)
        if 120 < len(text) < LONGEST:
            found.append(text)
    return found


def python_snippets(source: str, rng: random.Random) -> list[Snippet]:
    """Snippets of one Python file; some are windows that start and end anywhere."""
    tree = parse(source)
    if tree is None or source.count("\t") > 3:
        return []
    lines = source.split("\n")
    tops: list[ast.AST] = [n for n in tree.body if isinstance(n, DEFINITIONS)]
    heads = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)][:8]
    imports = "\n".join("\n".join(lines[n.lineno - 1 : n.end_lineno]) for n in heads)
    found = single_definitions(lines, tops, rng) + groups(
        lines, tops, imports if len(imports) < 600 else "", rng
    )
    if len(source) < LONGEST:
        found.append(source)
    return [Snippet("python", code.strip("\n")) for code in found]


C_FUNCTION = re.compile(r"^[a-zA-Z_][^\n;{}()]*\([^;{}]*\)\s*\n?\{\n(?:[ \t/#].*\n|\n)*?\}\n", re.M)


def braced_snippets(source: str, language: str, rng: random.Random) -> list[Snippet]:
    """Functions and runs of functions of C, windows of Java."""
    if language == "java":
        return [Snippet(language, code) for code in windows(source, rng)]
    functions = [
        m.group(0).strip("\n") for m in C_FUNCTION.finditer(source) if 80 < m.end() - m.start() < LONGEST
    ]
    found = [f for f in functions if rng.random() < 0.5]
    for i in range(0, len(functions), 4):
        text = "\n\n".join(functions[i : i + rng.randint(2, 5)])
        if len(text) < LONGEST:
            found.append(text)
    return [Snippet(language, code) for code in found]


def snippets(kind: str, source: str, rng: random.Random) -> list[Snippet]:
    """All snippets of a document of the corpus, by its kind letter."""
    if kind == "p":
        return python_snippets(source, rng)
    if kind in "cj":
        return braced_snippets(source, "c" if kind == "c" else "java", rng)
    return []
