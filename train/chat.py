"""ChatML as the shipped chat template writes it: training text and served prompts come from the same file."""

import difflib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATE = (Path(__file__).parent / "chat_template.jinja").read_text().rstrip("\n")
END_OF_TEXT = "<|endoftext|>"
END = "<|im_end|>"
OPENING = "<|im_start|>assistant\n"
FIM = ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>")
SPECIALS = (END_OF_TEXT, "<|im_start|>", END, *FIM)
TOOL_MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")

Message = dict[str, Any]


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment


_COMPILED = _environment().from_string(TEMPLATE)


def render(messages: list[Message], tools: list[Any] | None = None, ask: bool = False) -> str:
    """Write a conversation as text; `ask` opens the assistant's turn at its end."""
    return _COMPILED.render(messages=messages, tools=tools, add_generation_prompt=ask)


@dataclass(slots=True)
class Dialogue:
    """A conversation whose assistant turns are answers to learn; `focus` holds the texts that they edit."""

    kind: str
    messages: list[Message] = field(default_factory=list)
    tools: list[Any] | None = None
    focus: list[str | None] = field(default_factory=list)
    guessed: bool = False  # nothing in the question decides the answers: they count like plain text
    noise: bool = False  # the question is made up: nothing is learned from it

    def user(self, text: str) -> None:
        """Add a user turn."""
        self.messages.append({"role": "user", "content": text})

    def answer(self, text: str, given: str | None = None) -> None:
        """Add an assistant turn; `given` is the text it edits, or None when all of it is new."""
        self.messages.append({"role": "assistant", "content": text})
        self.focus.append(given)

    def text(self) -> str:
        """The whole conversation as training text."""
        return render(self.messages, self.tools)

    def prompt(self) -> str:
        """Everything before the last answer."""
        return render(self.messages[:-1], self.tools, ask=True)

    def reference(self) -> str:
        """The last answer."""
        return str(self.messages[-1]["content"])

    def spans(self) -> tuple[str, list[tuple[int, int]], list[tuple[int, int]]]:
        """The training text, the ranges of its answers, and of what decides them: changed lines, the stop."""
        text, whole, focus, start = self.text(), [], [], 0
        answers = [m["content"] for m in self.messages if m["role"] == "assistant"]
        for answer, given in zip(answers, self.focus, strict=True):
            start = text.index(OPENING + answer, start) + len(OPENING)
            end = start + len(answer)
            if not self.guessed:
                whole.append((start, end))
                focus += [(start + a, start + b) for a, b in changed_spans(answer, given)]
            focus.append((end, end + len(END)))
            start = end
        return text, whole, focus


def changed_lines(old: list[str], new: list[str]) -> set[int]:
    """Lines that are new, and those that follow a gap, to the first that is not blank."""
    changed: set[int] = set()
    for tag, _, _, begin, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        changed.update(range(begin, end))
        while end < len(new):
            changed.add(end)
            if new[end].strip():
                break
            end += 1
    return changed


def changed_spans(answer: str, given: str | None) -> list[tuple[int, int]]:
    """Ranges of the answer's lines that are new or go on behind something that was left out."""
    if given is None:
        return [(0, len(answer))]
    lines = answer.split("\n")
    fence = [line for line in lines if line.startswith("```")]
    old = given.split("\n")
    if fence and not given.startswith("```"):
        old = [fence[0], *old, fence[-1]]
    if old == lines:
        return []
    changed, spans, start = changed_lines(old, lines), [], 0
    for i, line in enumerate(lines):
        if i in changed:
            spans.append((start, start + len(line) + 1))
        start += len(line) + 1
    return spans
