"""Planted bugs that the code itself gives away: one is put in, the request is to fix it."""

import random
import re

from edits import Edit, count_word, identifiers
from words import request

FIX = (
    "Fix the bug in this code.", "Fix the bug.", "There is a mistake in this code. Fix it.",
    "This code does not work. Fix it.", "Find and fix the error.", "Fix the error in this code.",
    "Something is wrong here. Correct it.", "Correct this code.",
)  # fmt: skip
NAMED = (
    "Fix the {why}.",
    "This code has a {why}. Fix it.",
    "There is a {why} in this code. Correct it.",
    "Find and fix the {why}.",
)


def _drop_at_end(code: str, pattern: str, drop: int, rng: random.Random) -> str | None:
    lines = code.split("\n")
    places = [i for i, line in enumerate(lines) if re.search(pattern, line)]
    if not places:
        return None
    i = rng.choice(places)
    lines[i] = lines[i].rstrip()[:-drop]
    return "\n".join(lines)


def _replace_one(code: str, pattern: str, new: str, rng: random.Random) -> str | None:
    found = list(re.finditer(pattern, code))
    if not found:
        return None
    match = rng.choice(found)
    return code[: match.start()] + match.expand(new) + code[match.end() :]


def _misspell(code: str, rng: random.Random) -> str | None:
    names = [n for n in identifiers(code) if len(n) > 4 and count_word(code, n) >= 3]
    if not names:
        return None
    name = rng.choice(names)
    i = rng.randrange(1, len(name) - 1)
    swapped = name[:i] + name[i + 1] + name[i] + name[i + 2 :]
    uses = list(re.finditer(rf"\b{name}\b", code))
    use = rng.choice(uses[1:])
    return None if swapped == name else code[: use.start()] + swapped + code[use.end() :]


PYTHON_BUGS = {
    "missing colon": lambda c, r: _drop_at_end(
        c, r"^\s*(def|if|for|while|else|elif|try|with|class)\b.*:$", 1, r
    ),
    "missing parenthesis": lambda c, r: _drop_at_end(c, r"[\w\"'\])]\)$", 1, r),
    "missing quote": lambda c, r: _drop_at_end(c, r"= [\"'][\w ]+[\"']$", 1, r),
    "typo": _misspell,
    "syntax error": lambda c, r: _replace_one(c, r"(\n\s+(?:if|elif|while) [\w.]+ )==(?= )", r"\g<1>=", r),
    "wrong keyword": lambda c, r: _replace_one(
        c, r"\breturn\b(?= )", r.choice(("retrun", "retunr", "reutrn")), r
    ),
    "wrong name": lambda c, r: _replace_one(
        c, r"\b(True|False|None)\b", r.choice(("true", "false", "none")), r
    ),
    "broken keyword": lambda c, r: _replace_one(c, r"\belif\b", "else if", r),
}
C_BUGS = {
    "missing semicolon": lambda c, r: _drop_at_end(c, r"^\s+(return\b.*|.*\)|.* = .*);$", 1, r),
    "missing parenthesis": lambda c, r: _drop_at_end(c, r"[\w\])]\)$", 1, r),
    "typo": _misspell,
}
RESTORED = {"true": "True", "false": "False", "none": "None"}


def fix(code: str, rng: random.Random) -> Edit | None:
    """Plant one bug; the answer is the code as it was."""
    bugs = C_BUGS if ";\n" in code else PYTHON_BUGS
    why = rng.choice(list(bugs))
    broken = bugs[why](code, rng)
    if broken is None or broken == code:
        return None
    if why == "wrong name":  # the planted word must be the very word in lower case, or the fix is a guess
        changed = next((b for a, b in zip(code.split("\n"), broken.split("\n"), strict=True) if a != b), "")
        if not any(changed.replace(low, up, 1) in code for low, up in RESTORED.items() if low in changed):
            return None
    templates = FIX if rng.random() < 0.5 else NAMED
    return Edit("fix", request(rng, templates, why=why), broken, code)
