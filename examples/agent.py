"""A coding agent: write a file, run its tests, read the failure, edit, and again, all of it through tool calls.

    foretoken serve                                        # in one terminal
    python examples/agent.py --sessions 4                  # in another: transcripts and how many end with passing tests
    python examples/agent.py --sessions 4 --compare        # each once without and once with speculation

A script plays the user, so that a session is the same every time: it asks for a program, breaks it once the tests pass,
and asks for a repair. The model writes the code and every call; calls are strict, so that even a very small model makes
valid ones. What it writes is run in a process of its own, with limits.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import openai

MAX_ROUNDS = 2
MAX_TOKENS = 220
SYSTEM = "You are a coding agent. Use the tools to write and repair programs."

CHECK = """
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
path, name, cases = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
left = 200_000
def count(frame, event, argument):
    global left
    left -= 1
    if left < 0:
        raise RuntimeError("it never ends")
    return count
try:
    scope = {"__name__": "program"}
    sys.settrace(count)
    exec(compile(open(path).read(), path, "exec"), scope)
    for arguments, wanted in cases:
        found = scope[name](*arguments)
        assert found == wanted, f"{name}({', '.join(map(repr, arguments))}) is {found!r:.80}, not {wanted!r}"
except BaseException as error:
    sys.settrace(None)
    where = f" in line {error.lineno}" if isinstance(error, SyntaxError) else ""
    print(f"FAILED: {type(error).__name__}{where}: {str(error)[:200]}")
else:
    print("PASSED")
"""
"""Runs in the child: it counts steps, not seconds, so that a slow machine fails the same programs."""


@dataclass(frozen=True)
class Task:
    """A program to write, the function it must have, and what that must return."""

    words: str
    function: str
    cases: list[tuple[list[Any], Any]]

    @property
    def path(self) -> str:
        return f"{self.function}.py"


NUMBERS = [3, 1, 2, 3, 0, -5, 9]
TASKS = [
    Task("quicksort", "quicksort", [([NUMBERS], sorted(NUMBERS)), ([[]], [])]),
    Task("merge sort", "merge_sort", [([NUMBERS], sorted(NUMBERS)), ([[1]], [1])]),
    Task("bubble sort", "bubble_sort", [([NUMBERS], sorted(NUMBERS))]),
    Task("binary search", "binary_search", [([[1, 4, 6, 9], 6], 2), ([[1, 4], 5], -1)]),
    Task("factorial", "factorial", [([5], 120), ([0], 1)]),
    Task("fibonacci", "fibonacci", [([10], 55), ([1], 1)]),
    Task("greatest common divisor", "gcd", [([12, 18], 6), ([7, 5], 1)]),
    Task("prime test", "is_prime", [([7], True), ([9], False), ([1], False)]),
    Task("palindrome check", "is_palindrome", [(["level"], True), (["lever"], False)]),
    Task("word count", "word_count", [(["a b a"], {"a": 2, "b": 1})]),
]


def function(name: str, description: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    described = {"name": name, "description": description, "parameters": schema, "strict": True}
    return {"type": "function", "function": described}


def tools(task: Task) -> list[dict[str, Any]]:
    path, line = {"type": "string", "enum": [task.path]}, {"type": "string", "pattern": "^[^\\n]{1,60}$"}
    return [
        function("save_code", "Save the code of your last message to a file.", path=path),
        function("read_file", "Read a file.", path=path),
        function("edit_file", "Replace a piece of a line.", path=path, old=line, new=line),
        function("run_tests", "Run the tests."),
    ]


def mutated(code: str, number: int) -> str:
    """The same program with a mistake in it."""
    mistakes = [(r":\n", "\n"), (r"return ", "retrun "), (r" (<=|<|==) ", " > "), (r"\)\n", "\n"), (r"\b([01])\b", "7")]
    pattern, wrong = mistakes[number % len(mistakes)]
    places = list(re.finditer(pattern, code))
    if not places:
        return code[: len(code) // 2]
    place = places[number % len(places)]
    return code[: place.start()] + wrong + code[place.end() :]


@dataclass
class Session:
    """One task from the request to passing tests, or to the last round; `transcript` is all that was said and done."""

    client: openai.OpenAI
    task: Task
    seed: int
    options: dict[str, Any]
    folder: Path
    messages: list[Any] = field(default_factory=list)
    transcript: list[tuple[str, str]] = field(default_factory=list)

    def run(self) -> bool:
        self.messages.append({"role": "system", "content": SYSTEM})
        self.talk(f"Write a {self.task.words} in Python.")
        self.say("Save it.")
        self.call("save_code")
        if self.call("run_tests") == "PASSED":
            self.file.write_text(mutated(self.file.read_text(encoding="utf-8"), self.seed), encoding="utf-8")
            self.say("I changed the file. Run the tests again.")
        for number in range(MAX_ROUNDS):
            if self.call("run_tests") == "PASSED":
                return True
            self.say("Show me the file.")
            self.call("read_file")
            self.talk("Fix the bug in this code.")
            self.say("Change the file.")
            self.call("edit_file" if number % 2 else "save_code")
        return self.call("run_tests") == "PASSED"

    @property
    def file(self) -> Path:
        return self.folder / self.task.path

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})
        self.transcript.append(("user", text))

    def talk(self, text: str) -> None:
        """Say something and have the model answer in words."""
        self.say(text)
        self.answer(tool_choice="none")

    def call(self, *names: str) -> str:
        """Have the model call one of these tools, and do what it says; returns the result."""
        allowed = [{"type": "function", "function": {"name": name}} for name in names]
        choice = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": allowed}}
        message = self.answer(tool_choice=choice, parallel_tool_calls=False)
        if not message.tool_calls:
            # The call was too long: what there is of it came as text.
            return "FAILED: the call was cut off."
        called = message.tool_calls[0]
        result = self.done(called.function.name, json.loads(called.function.arguments))
        self.messages.append({"role": "tool", "tool_call_id": called.id, "content": result})
        self.transcript += [(called.function.name, called.function.arguments), ("result", result)]
        return result

    def answer(self, **fields: Any) -> Any:
        """What the model says next; it joins the conversation."""
        answer = self.client.chat.completions.create(
            model="any",
            messages=self.messages,
            tools=tools(self.task),  # type: ignore[arg-type]
            max_tokens=MAX_TOKENS,
            temperature=0.5,
            seed=1000 * self.seed + len(self.messages),
            extra_body=self.options,
            **fields,
        )
        message = answer.choices[0].message
        self.messages.append(message)
        if message.content:
            self.transcript.append(("assistant", message.content))
        return message

    def done(self, name: str, arguments: dict[str, str]) -> str:
        text = self.file.read_text(encoding="utf-8") if self.file.exists() else ""
        if name == "read_file":
            return text
        if name == "save_code":
            said = [m.content for m in self.messages if not isinstance(m, dict) and m.content]
            code = re.findall(r"```python\n(.*?)```", said[-1] if said else "", re.DOTALL)
            if not code:
                return "FAILED: there is no code in that message."
            self.file.write_text(code[-1], encoding="utf-8", errors="replace")
            return "Saved."
        if name == "edit_file":
            if arguments["old"] not in text:
                return "FAILED: the file has no such piece."
            changed = text.replace(arguments["old"], arguments["new"], 1)
            self.file.write_text(changed, encoding="utf-8", errors="replace")
            return "Edited."
        command = [sys.executable, "-I", "-c", CHECK, self.task.path, self.task.function, json.dumps(self.task.cases)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        return (done.stdout.strip().splitlines() or ["FAILED: it ended the process."])[-1]


def session(client: openai.OpenAI, number: int, options: dict[str, Any]) -> tuple[bool, list[tuple[str, str]]]:
    """Session `number`: whether its tests pass in the end, and its transcript."""
    with tempfile.TemporaryDirectory() as folder:
        one = Session(client, TASKS[number % len(TASKS)], number, options, Path(folder))
        return one.run(), one.transcript


def sessions(
    client: openai.OpenAI, n: int, speculation: str, at_once: int = 4
) -> list[tuple[bool, list[tuple[str, str]]]]:
    options = {"speculative": {"type": speculation}}
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda number: session(client, number, options), range(n)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080/v1")
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--compare", action="store_true", help="run without speculation too, and compare")
    asked = parser.parse_args()
    with openai.OpenAI(base_url=asked.url, api_key="none", timeout=600) as client:
        found = sessions(client, asked.sessions, "auto")
        if asked.compare:
            plain = sessions(client, asked.sessions, "none")
            same = sum(one == other for one, other in zip(found, plain, strict=True))
            print(f"{same} of {asked.sessions} transcripts are the same without speculation")
        else:
            for number, (passed, transcript) in enumerate(found):
                print(f"--- session {number}: {'passed' if passed else 'failed'}")
                for who, text in transcript:
                    print(f"{who}: {text}")
    print(f"{sum(passed for passed, _ in found)} of {asked.sessions} sessions end with passing tests")


if __name__ == "__main__":
    main()
