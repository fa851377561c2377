"""Edits that need no parser: they work on any language by lines and whole words."""

import builtins
import keyword
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from words import NOUNS, VERBS, new_name, request, sentence


@dataclass(frozen=True, slots=True)
class Edit:
    """A request to change `before` into `after`."""

    kind: str
    instruction: str
    before: str
    after: str


Editor = Callable[[str, random.Random], Edit | None]
FIXED_NAMES = (
    set(keyword.kwlist)
    | set(dir(builtins))
    | {"self", "cls", "args", "kwargs", "int", "char", "void", "static"}
)
FIXED_NAMES |= set(
    "const struct return if else for while unsigned long short double float sizeof switch case break".split()
)


def replace_word(code: str, old: str, new: str) -> str:
    """Replace every whole-word occurrence."""
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", lambda _: new, code)


def count_word(code: str, word: str) -> int:
    """Count whole-word occurrences."""
    return len(re.findall(rf"(?<!\w){re.escape(word)}(?!\w)", code))


def identifiers(code: str) -> list[str]:
    """Names in order of appearance, without keywords, builtins and attributes."""
    names = dict.fromkeys(re.findall(r"(?<![\w.'\"])[A-Za-z_]\w+", code))
    return [name for name in names if name not in FIXED_NAMES and not name.startswith("__")]


REPEAT = (
    "Repeat this code exactly.", "Repeat the following code without changes.", "Copy this code verbatim.",
    "Print this code again, unchanged.", "Return the code as it is.", "Echo the code back.",
    "Repeat this file.", "Repeat the file without any changes.", "Reproduce this file exactly as it is.",
    "Output the same code again.", "Write this file again, unchanged.",
    "Give me this code back without modifications.",
)  # fmt: skip


def repeat(code: str, rng: random.Random) -> Edit | None:
    """Re-emit the code unchanged."""
    return Edit("repeat", request(rng, REPEAT), code, code)


RENAME = (
    "Rename `{old}` to `{new}`.", "Rename {old} to {new}.", "Rename the {what} `{old}` to `{new}`.",
    "Rename the {what} {old} to {new}.", "Change the name of the {what} {old} to {new}.",
    "rename {old} -> {new}", "Replace the name `{old}` with `{new}`.", "Use `{new}` instead of `{old}`.",
    "The {what} `{old}` should be called `{new}`.", "Replace all occurrences of `{old}` with `{new}`.",
    "Rename `{old}` to `{new}` everywhere.", "{old} should be named {new}.",
    "Rename {what} {old} to {new} in this code.", "Call the {what} {new} instead of {old}.",
)  # fmt: skip


def rename(code: str, rng: random.Random) -> Edit | None:
    """Rename a function, class or variable everywhere."""
    functions = [n for n in re.findall(r"^ *(?:async )?def (\w+)", code, re.M) if not n.startswith("__")]
    classes = re.findall(r"^class (\w+)", code, re.M)
    names = [
        n
        for n in identifiers(code)
        if count_word(code, n) >= 2 and re.search(rf"\b{n}( =|\(|\.\w|\[|\))", code)
    ]
    pool = rng.choice([p for p in (functions, functions, classes, names, names) if p] or [[]])
    if not pool:
        return None
    old = rng.choice(pool)
    new = new_name(rng, old)
    if new == old or count_word(code, new) or count_word(code, old) > 12:
        return None
    what = "class" if old in classes else "function" if old in functions or f"{old}(" in code else "variable"
    return Edit(
        "rename", request(rng, RENAME, old=old, new=new, what=what), code, replace_word(code, old, new)
    )


CONSTANT = (
    "Change the constant {old} to {new}.", "Replace {old} with {new}.", "Change {old} to {new}.",
    "Use {new} instead of {old}.", "Change the number {old} to {new}.", "The value {old} should be {new}.",
    "Set the constant {old} to {new}.", "Replace the number {old} by {new}.",
    "Change the value {old} to {new}.",
)  # fmt: skip
NAMED_CONSTANT = (
    "Set {name} to {new}.", "Change the value of `{name}` to {new}.", "Change {name} to {new}.",
    "Set `{name}` to `{new}`.", "Change {name} from {old} to {new}.", "{name} should be {new}.",
    "Make {name} equal to {new}.", "Update the constant {name} to {new}.", "Use {new} for {name}.",
    "Change the constant {name} to {new}.",
)  # fmt: skip


NAMED = re.compile(r"(?<![\w.\]])(\w+)(?:: [\w\[\], |.]+)? ?=\s?$|#define (\w+)\s+$")


def constant(code: str, rng: random.Random) -> Edit | None:
    """Change a number that occurs once, or one that a name is set to."""
    numbers = list(re.finditer(r"(?<![\w.'\"])\d+(?:\.\d+)?(?![\w.'\"])", code))
    named = [(m, n) for m in numbers if (n := NAMED.search(line_head(code, m)))]
    single = [m for m in numbers if len(re.findall(rf"(?<![\w.]){re.escape(m.group())}(?![\w.])", code)) == 1]
    names = [(n.group(1) or n.group(2)) for _, n in named]
    if named and rng.random() < 0.6:
        match, found = rng.choice(named)
        name = found.group(1) or found.group(2)
        if names.count(name) > 1:
            return None
        templates: tuple[str, ...] = NAMED_CONSTANT
    elif single:
        match, name, templates = rng.choice(single), "", CONSTANT
    else:
        return None
    old = match.group()
    grown = str(int(float(old)) + rng.randint(1, 5))
    choices = [
        rng.randint(0, 10),
        rng.randint(0, 1000),
        2 ** rng.randint(1, 12),
        grown,
        old + "0",
        round(rng.random(), 2),
    ]
    new = str(rng.choice(choices))
    if new == old:
        return None
    after = code[: match.start()] + new + code[match.end() :]
    return Edit("constant", request(rng, templates, old=old, new=new, name=name), code, after)


def line_head(code: str, match: re.Match[str]) -> str:
    """The text of a match's line before the match."""
    return code[code.rfind("\n", 0, match.start()) + 1 : match.start()]


STRING = (
    "Change the string {q}{old}{q} to {q}{new}{q}.", "Replace {q}{old}{q} with {q}{new}{q}.",
    'Replace the text "{old}" by "{new}".', 'Change "{old}" to "{new}".',
    'It should say "{new}" instead of "{old}".', 'Replace the string "{old}" with "{new}".',
)  # fmt: skip


def string(code: str, rng: random.Random) -> Edit | None:
    """Change the text of a string that occurs once."""
    found = list(re.finditer(r"(?<![\w'\"])([\"'])([A-Za-z][\w .:/-]{2,40})\1(?![\"'])", code))
    if not found:
        return None
    match = rng.choice(found)
    quote, old = match.group(1), match.group(2)
    noun = rng.choice(NOUNS)
    new = rng.choice(
        (
            new_name(rng),
            old.upper(),
            old.capitalize(),
            f"{old}_{noun}".replace(" ", "_"),
            f"{old} {noun}",
            f"my {noun}",
        )
    )
    if code.count(old) != 1 or new == old:
        return None
    after = code[: match.start(2)] + new + code[match.end(2) :]
    return Edit("string", request(rng, STRING, q=quote, old=old, new=new), code, after)


INSERT = (
    "After the line `{line}` add `{new}`.", "Insert `{new}` after `{line}`.",
    "Add the line `{new}` below `{line}`.", "Put `{new}` right after `{line}`.",
    "Add `{new}` on a new line after `{line}`.",
)  # fmt: skip


def insert_line(code: str, rng: random.Random) -> Edit | None:
    """Insert a statement after a line that occurs once."""
    lines = code.split("\n")
    places = [
        i
        for i, line in enumerate(lines)
        if re.match(r"\s*[\w.]+ = .*[^,(\[{\\]$", line) and code.count(line.strip()) == 1
    ]
    if not places:
        return None
    i = rng.choice(places)
    end = lines[i].rstrip().endswith(";")
    name = lines[i].split("=")[0].strip()
    indent = lines[i][: len(lines[i]) - len(lines[i].lstrip())]
    forms = (
        f"assert {name} is not None",
        f"print({name})",
        f"logger.debug({name})",
        f"{new_name(rng)} = {name}",
    )
    if end:
        new = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}({name});"
    else:
        new = rng.choice((*forms, f"{new_name(rng)} = {rng.randint(0, 99)}"))
    after = "\n".join([*lines[: i + 1], indent + new, *lines[i + 1 :]])
    return Edit("insert line", request(rng, INSERT, line=lines[i].strip(), new=new), code, after)


REMOVE_LINE = (
    "Remove the line `{line}`.", "Delete `{line}`.", "Delete the line `{line}`.", "Drop the line `{line}`.",
    "Take out `{line}`.",
)  # fmt: skip


def remove_line(code: str, rng: random.Random) -> Edit | None:
    """Remove a simple statement that occurs once."""
    lines = code.split("\n")
    simple = re.compile(r"\s*[\w.]+(\(.*\)| = [^(\[{]*[^,(\[{\\]);?$")
    places = [
        i for i, line in enumerate(lines) if i > 1 and simple.match(line) and code.count(line.strip()) == 1
    ]
    if not places:
        return None
    i = rng.choice(places)
    after = "\n".join(lines[:i] + lines[i + 1 :])
    return Edit("remove line", request(rng, REMOVE_LINE, line=lines[i].strip()), code, after)


COMMENT_TOP = (
    'Add the comment "{text}" at the top.', "Put a comment `{text}` on the first line.",
    "Start the file with `{text}`.",
)  # fmt: skip


def comment(code: str, rng: random.Random) -> Edit | None:
    """Add a comment as the first line."""
    note = rng.choice(("TODO: ", "NOTE: ", "", "")) + sentence(rng)
    text = f"// {note}" if ";\n" in code else f"# {note}"
    return Edit("comment", request(rng, COMMENT_TOP, text=text), code, f"{text}\n{code}")
