"""Editing dialogues made by program from real code: one turn or several, each answer the whole text."""

import random
import re
from collections.abc import Iterator

import bugs
import definitions
import edits
import python_edits
from chat import Dialogue
from edits import Edit, Editor
from handmade import handmade
from noise import disturbed, renamed, small_module
from snippets import LONGEST, Snippet, parse, snippets, windows
from structured import extraction, json_edit
from tool_calls import tool_call
from words import SYSTEMS, is_imperative, lower_first

PYTHON: list[tuple[Editor, float]] = [
    (edits.repeat, 6), (edits.rename, 18), (edits.constant, 26), (edits.string, 6), (edits.insert_line, 5),
    (edits.remove_line, 5), (edits.comment, 2), (bugs.fix, 16), (python_edits.add_parameter, 11),
    (python_edits.remove_parameter, 10), (python_edits.docstring, 10), (python_edits.document, 3),
    (definitions.delete, 34), (definitions.delete_method, 14), (definitions.rearrange, 5),
    (definitions.signature, 8), (definitions.add_import, 3),
]  # fmt: skip
BRACED: list[tuple[Editor, float]] = [
    (edits.repeat, 8), (edits.rename, 16), (edits.constant, 22), (edits.string, 6), (edits.insert_line, 5),
    (edits.remove_line, 5), (edits.comment, 3), (bugs.fix, 10), (definitions.delete_function, 16),
]  # fmt: skip
CHARS_PER_TOKEN = 3.2
CONTEXT_TOKENS = 3900
OPENERS = (
    "Here is my code:",
    "Consider this code:",
    "Given this file:",
    "I have this code:",
    "This is the file:",
)
CONNECTIVES = ("Now {}", "Next, {}", "Then {}", "And now {}", "Also {}", "Good. Now {}", "Thanks. Now {}")


def fence(code: str, language: str) -> str:
    """Put code between fences."""
    return f"```{language}\n{code}\n```"


def ask(instruction: str, code: str, language: str, rng: random.Random) -> str:
    """Put an instruction and the code it is about into one message."""
    block, roll = fence(code, language), rng.random()
    if roll < 0.55:
        return f"{instruction}\n\n{block}"
    if roll < 0.65:
        return f"{instruction}\n{block}"
    if roll < 0.87:
        return f"{block}\n\n{instruction}"
    if roll < 0.94:
        return f"{rng.choice(OPENERS)}\n\n{block}\n\n{instruction}"
    return f"{instruction}\n\n{code}"


def choose_edit(code: str, editors: list[tuple[Editor, float]], rng: random.Random) -> Edit | None:
    """Draw kinds of edit until one applies to this code and leaves something of it."""
    for editor in rng.choices([e for e, _ in editors], [w for _, w in editors], k=6):
        edit = editor(code, rng)
        if edit and edit.after.strip():
            return edit
    return None


def editing(
    snippet: Snippet, rng: random.Random, turns: int = 0, editors: list[tuple[Editor, float]] | None = None
) -> Dialogue | None:
    """A dialogue of one or more edits of a snippet; every answer re-emits all of it."""
    code = snippet.code
    room = int(CONTEXT_TOKENS * CHARS_PER_TOKEN / max(len(code), 1)) - 1
    turns = min(turns or rng.choice((1, 1, 1, 1, 1, 2, 2, 3, 4)), room)
    table = editors or (PYTHON if snippet.language == "python" else BRACED)
    dialogue = Dialogue("several turns")
    if rng.random() < 0.3:
        dialogue.messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    for turn in range(turns):
        edit = choose_edit(code, table, rng)
        if edit is None or (
            turn and edit.before != code
        ):  # a later turn edits the answer before it, never a broken copy
            continue
        if dialogue.focus:
            plain = rng.random() < 0.5 or not is_imperative(edit.instruction)
            dialogue.user(
                edit.instruction if plain else rng.choice(CONNECTIVES).format(lower_first(edit.instruction))
            )
        else:
            dialogue.kind = edit.kind
            dialogue.user(ask(edit.instruction, edit.before, snippet.language, rng))
        dialogue.answer(fence(edit.after, snippet.language), edit.before)
        dialogue.guessed |= edit.kind == "document"
        code = edit.after
    if len(dialogue.focus) > 1:
        dialogue.kind = "several turns"
    return dialogue if dialogue.focus else None


DESCRIBE = (
    "What does this code do?",
    "Explain this code briefly.",
    "Summarize this function in one sentence.",
    "What does {name} do?",
)
WRITE = (
    "Write a Python {what} `{name}`: {text}",
    "Write a {what} called {name}. {text}",
    "Implement {name}. {text}",
)
LIST = (
    "List the functions defined in this code.",
    "Which functions are defined here?",
    "Name the functions in this file.",
)


def describing(snippet: Snippet, rng: random.Random) -> Dialogue | None:
    """Say what documented code does, write it from its docstring, or list what it defines."""
    tree = parse(snippet.code)
    if tree is None or not tree.body:
        return None
    node = tree.body[0]
    names = re.findall(r"^ *(?:async )?def (\w+)", snippet.code, re.M)
    if len(names) > 2 and rng.random() < 0.5:
        dialogue = Dialogue("list functions")
        dialogue.user(ask(rng.choice(LIST), snippet.code, snippet.language, rng))
        dialogue.answer("\n".join(f"- `{name}`" for name in names))
        return dialogue
    statement = python_edits.docstring_of(node)
    if statement is None or len(snippet.code) > 2000:
        return None
    text = re.sub(r"\s+", " ", str(statement.value.value).strip().split("\n\n")[0])  # type: ignore[attr-defined]
    if not 15 < len(text) < 160 or not text[0].isalpha():
        return None
    name, what = node.name, "class" if snippet.code.startswith("class") else "function"  # type: ignore[attr-defined]
    dialogue = Dialogue("describe", guessed=True)
    if rng.random() < 0.5:
        dialogue.user(rng.choice(WRITE).format(name=name, what=what, text=text))
        dialogue.answer(fence(snippet.code, snippet.language))
    else:
        dialogue.user(ask(rng.choice(DESCRIBE).format(name=name), snippet.code, snippet.language, rng))
        dialogue.answer(text)
    return dialogue


def on_window(kind: str, window: str, rng: random.Random) -> Dialogue | None:
    """Repeat or edit a stretch of a document that starts and ends anywhere, half of them disturbed."""
    language = {"p": "python", "c": "c", "j": "java", "d": "markdown"}[kind]
    noise = rng.random() < 0.5
    snippet = Snippet(language, disturbed(window, rng)[:LONGEST] if noise else window)
    if rng.random() < 0.7 or kind == "d":
        made = editing(snippet, rng, 1, [(edits.repeat, 1)])
    else:
        made = editing(snippet, rng, 0, BRACED)
    if made:
        made.noise = noise
    return made


def on_small_module(rng: random.Random) -> Dialogue | None:
    """Edit tiny functions that are easily taken for one another."""
    made = editing(Snippet("python", small_module(rng)), rng)
    if made:
        made.noise = True
    return made


def dialogues(kind: str, source: str, rng: random.Random) -> Iterator[Dialogue]:
    """All dialogues made from one document, with some that need no document in between."""
    for snippet in snippets(kind, source, rng):
        roll = rng.random()
        if roll < 0.18:
            yield rng.choice((extraction, extraction, tool_call, tool_call, json_edit, handmade, handmade))(
                rng
            )
        elif roll < 0.36 and (small := on_small_module(rng)):
            yield small
        if roll > 0.96 and snippet.language == "python":
            made = describing(snippet, rng)
        else:
            strange = rng.random() < 0.25
            made = editing(Snippet(snippet.language, renamed(snippet.code, rng)) if strange else snippet, rng)
        if made:
            yield made
    stretches = windows(source, rng)
    for window in rng.sample(stretches, -(-2 * len(stretches) // 3)):
        if made := on_window(kind, window, rng):
            yield made
