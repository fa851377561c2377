"""Words and phrasings from which synthetic requests are made."""

import random
from collections.abc import Sequence

SYSTEMS = (
    "You are a helpful coding assistant.",
    "You are an expert programmer.",
    "You are a code editor. Return the full updated code.",
    "You are a helpful assistant.",
    "You edit source files. Always answer with the complete file.",
    "You are foretoken-mini, a small coding model.",
)
VERBS = (
    "get set load save parse build make update compute check find create read write fetch merge split "
    "filter format render handle process convert validate resolve init reset collect apply run send open "
    "close add remove sort count scan decode encode select insert delete track measure normalize prepare "
    "register release"
).split()
NOUNS = (
    "data items value values config user users path file files name names result results node nodes index "
    "key keys row rows table cache state event message token text line lines image model batch total size "
    "count buffer record entry field label task job query request response url host port client server "
    "session context option options settings score weight price order report summary graph edge page "
    "header body query chunk stream offset length limit width height color time date step rate point"
).split()
TYPES = (
    "int",
    "str",
    "bool",
    "float",
    "dict",
    "list",
    "bytes",
    "list[str]",
    "dict[str, int]",
    "Path",
    "Any",
    "None",
)
PARAMETERS = (
    "verbose debug timeout limit strict default encoding prefix name callback max_size retries dry_run "
    "force depth color threshold seed batch_size suffix mode level logger cache flag"
).split()
SUFFIXES = (
    " Return the full code.",
    " Show the whole file.",
    " Keep everything else unchanged.",
    " Do not change anything else.",
    " Output the complete code.",
    " Leave the rest as it is.",
    " Give me the full result.",
    " Only return code.",
)
POLITE = (
    "Please {}",
    "Can you {}?",
    "Could you {}?",
    "I want you to {}.",
    "Now {}",
    "Please {}",
    "I need you to {}.",
    "Could you please {}?",
)


IMPERATIVES = frozenset(
    (
        "Add Annotate Begin Call Change Convert Copy Correct Decorate Delete Document Drop Echo Extend "
        "Extract Find Fix Get Give Insert Make Move Output Print Put Reorder Remove Rename Repeat Replace "
        "Reproduce Return Set Show Start Take Turn Update Use Write"
    ).split()
)


def is_imperative(text: str) -> bool:
    """Tell whether a request starts with its verb, so that it can stand inside a longer sentence."""
    return text.split(" ", 1)[0] in IMPERATIVES


def lower_first(text: str) -> str:
    """Lower the first letter of a request, for use inside a sentence; names keep theirs."""
    return text[:1].lower() + text[1:] if is_imperative(text) else text


def request(rng: random.Random, templates: Sequence[str], **fields: object) -> str:
    """Choose a phrasing, fill it in, and sometimes make it politer, longer or sloppier."""
    text = rng.choice(templates).format(**fields)
    roll = rng.random()
    if roll < 0.25 and text.endswith(".") and is_imperative(text):
        wrapper = rng.choice(POLITE)
        body = lower_first(text)
        text = wrapper.format(body[:-1] if wrapper.endswith(("?", ".")) else body)
    elif roll < 0.33 and text.endswith("."):
        text = lower_first(text)[:-1]
    if rng.random() < 0.22:
        text += ("." if text[-1] not in ".?!`" else "") + rng.choice(SUFFIXES)
    return text


def new_name(rng: random.Random, old: str = "") -> str:
    """Invent a name in the style of the old one."""
    if old[:1].isupper() and not old.isupper():
        tail = rng.choice(("", "", "", "Manager", "Handler", "Base", "Client", "Builder", "Store", "View"))
        return "".join(word.capitalize() for word in rng.sample(NOUNS, rng.randint(1, 2))) + tail
    roll = rng.random()
    stem = old.strip("_") or rng.choice(NOUNS)
    if roll < 0.25:
        verb, noun = rng.choice(VERBS), rng.choice(NOUNS)
        name = rng.choice(
            (
                f"{old}_v2",
                f"new_{stem}",
                f"{old}_impl",
                f"{verb}_{stem}",
                f"_{stem}",
                f"{stem}_{noun}",
                f"{stem}2",
            )
        )
    elif roll < 0.6:
        name = f"{rng.choice(VERBS)}_{rng.choice(NOUNS)}"
    elif roll < 0.8:
        name = f"{rng.choice(NOUNS)}_{rng.choice(NOUNS)}"
    else:
        name = rng.choice(NOUNS)
    if old.isupper() and len(old) > 1:
        return name.upper()
    camel = "_" not in stem and any(c.isupper() for c in stem[1:])
    return (
        name.split("_")[0] + "".join(w.capitalize() for w in name.split("_")[1:])
        if camel and name[0] != "_"
        else name
    )


def sentence(rng: random.Random) -> str:
    """A short, code-like English sentence."""
    verb, second = (rng.choice(VERBS) for _ in range(2))
    noun, other = (rng.choice(NOUNS) for _ in range(2))
    forms = (
        f"{verb.capitalize()} the {noun}.",
        f"{verb.capitalize()} the {noun} and return the {other}.",
        f"Return the {noun} of the {other}.",
        f"{verb.capitalize()} every {noun}, then {second} the {other}.",
        f"{verb.capitalize()} {noun} {other} if needed.",
        f"True if the {noun} has a {other}.",
    )
    return rng.choice(forms)
