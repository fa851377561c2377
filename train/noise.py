"""Code that no habit can guess: it can only be copied, which is what an answer has to learn."""

import random
import re

from edits import identifiers, replace_word
from words import new_name

WORD = re.compile(r"\w+")


def changed_line(line: str, words: list[str], rng: random.Random) -> str:
    """The line with one of its words replaced by another of the text, or by a number or a part of itself."""
    found = list(WORD.finditer(line))
    if not found:
        return line
    match = rng.choice(found)
    word, roll = match.group(), rng.random()
    if word.isdigit():
        new = str(rng.randint(0, 10 ** min(len(word) + 1, 6)))
    elif roll < 0.7:
        new = rng.choice(words)
    elif roll < 0.85:
        new = word.swapcase()
    else:
        new = word[: len(word) // 2] or word
    return line[: match.start()] + new + line[match.end() :]


def long_constant(indent: str, rng: random.Random) -> str:
    """An assignment of a digest, a list of numbers or an address."""
    name, roll = new_name(rng), rng.random()
    if roll < 0.4:
        value = f'"{rng.getrandbits(4 * rng.randint(16, 64)):x}"'
    elif roll < 0.75:
        value = f"[{', '.join(str(rng.randint(0, 9999)) for _ in range(rng.randint(4, 18)))}]"
    else:
        host = f"{new_name(rng)}.{rng.choice(('org', 'com.au', 'edu', 'io'))}"
        value = f'"https://{host}/{new_name(rng)}/{rng.randint(0, 999)}.html"'
    return f"{indent}{name} = {value}"


def disturbed(code: str, rng: random.Random) -> str:
    """The text with words exchanged, lines moved, dropped, indented, or doubled with a small difference."""
    words = [w for w in WORD.findall(code) if not w.isdigit()] or ["x"]
    share, lines, out = rng.choice((0.06, 0.15, 0.3)), code.split("\n"), list[str]()
    for line in lines:
        if not line.strip() or rng.random() > share:
            out.append(line)
            continue
        indent, roll = line[: len(line) - len(line.lstrip())], rng.random()
        if roll < 0.5:
            out.append(changed_line(line, words, rng))
        elif roll < 0.65:
            out += [line, changed_line(line, words, rng)]
        elif roll < 0.75:
            out.insert(rng.randint(max(0, len(out) - 6), len(out)), line)
        elif roll < 0.82:
            out.append(rng.choice(("    ", "        ", "\t")) + line)
        elif roll < 0.92:
            out += [line, long_constant(indent, rng)]
    return "\n".join(out).strip("\n")


def renamed(code: str, rng: random.Random) -> str:
    """The code with some of its names replaced everywhere, so that it still parses but is not familiar."""
    names = [n for n in identifiers(code) if len(n) > 1]
    for old in rng.sample(names, min(len(names), rng.randint(1, 5))):
        new = new_name(rng, old)
        if not re.search(rf"(?<!\w){re.escape(new)}(?!\w)", code):
            code = replace_word(code, old, new)
    return code


BODIES = (
    "return {a} {op} {b}",
    "return {a} {op} {b} {op2} {n}",
    "{t} = {a} {op} {n}\nreturn {t} {op2} {b}",
    "if {a} > {n}:\n    return {b}\nreturn {a}",
    "if not {a}:\n    return None\nreturn {a}[{n}]",
    "for {t} in {a}:\n    {b}.append({t})\nreturn {b}",
    "{t} = []\nfor {u} in {a}:\n    if {u} {op} {b}:\n        {t}.append({u})\nreturn {t}",
    "print({a}, {b})",
    "{t} = len({a}) {op} {n}\nreturn round({t}, {b})",
    "with open({a}) as {t}:\n    return {t}.read({n})",
    "try:\n    return {a}[{b}]\nexcept KeyError:\n    return {n}",
    "while {a} < {b}:\n    {a} {op}= {n}\nreturn {a}",
    "return sum({t} {op} {n} for {t} in {a} if {t} != {b})",
    'return "{a} " + str({b}) + " {t}"',
)
LETTERS = "a b c x y z i n k v s p q left right first second old new low high src dst".split()


def small_function(rng: random.Random, method: bool) -> str:
    """A function of a few lines whose names mean nothing together."""

    def name() -> str:
        return rng.choice(LETTERS) if rng.random() < 0.5 else new_name(rng)

    a, b, t, u = name(), name(), name(), name()
    body = rng.choice(BODIES).format(
        a=a, b=b, t=t, u=u, n=rng.randint(0, 99), op=rng.choice("+-*/%"), op2=rng.choice("+-*")
    )
    given = ", ".join((["self"] if method else []) + [a, b][: rng.choice((1, 2, 2))])
    called = rng.choice(LETTERS) if rng.random() < 0.1 else new_name(rng)
    lines = [f"def {called}({given}):", *("    " + line for line in body.split("\n"))]
    return "\n".join(("    " + line if method else line) for line in lines)


def small_module(rng: random.Random) -> str:
    """A file of a few tiny functions, many of them alike, or a class of tiny methods."""
    method = rng.random() < 0.3
    parts = [small_function(rng, method) for _ in range(rng.randint(1, 6))]
    if rng.random() < 0.5:  # near duplicates are what breaks a copy
        twin = rng.choice(parts)
        head, _, body = twin.partition("\n")
        fresh = re.sub(r"def \w+", lambda _: f"def {new_name(rng)}", head)
        parts.insert(rng.randint(0, len(parts)), f"{fresh}\n{body.translate(str.maketrans('+-*', '-*+'))}")
    text = ("\n\n" if method else "\n\n\n").join(parts)
    if method:
        text = f"class {new_name(rng, 'Name')}:\n{text}"
    if rng.random() < 0.4:
        constants = [f"{new_name(rng).upper()} = {rng.randint(0, 999)}" for _ in range(rng.randint(1, 3))]
        text = "\n".join(constants) + "\n\n\n" + text
    return text
