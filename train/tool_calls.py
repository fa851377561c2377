"""Tool calls and the answers to their results, in the format of the chat template."""

import json
import random
from dataclasses import dataclass
from typing import Any

from chat import Dialogue
from structured import CITIES, FIRST, Field
from words import NOUNS, SYSTEMS, VERBS


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool, the arguments and phrasings of one request that needs it, and what it returns."""

    name: str
    purpose: str
    arguments: list[Field]
    phrasings: tuple[str, ...]
    result: str

    def description(self) -> dict[str, Any]:
        """The tool as the chat template lists it."""
        properties = {name: {"type": kind} for name, kind, _ in self.arguments}
        parameters = {"type": "object", "properties": properties, "required": list(properties)}
        function = {"name": self.name, "description": self.purpose, "parameters": parameters}
        return {"type": "function", "function": function}


def tools(rng: random.Random) -> list[Tool]:
    """The known tools with arguments drawn for one request."""
    city, path, word = rng.choice(CITIES), f"{rng.choice(NOUNS)}/{rng.choice(NOUNS)}.py", rng.choice(NOUNS)
    a, b, degrees = rng.randint(1, 999), rng.randint(1, 999), rng.randint(-10, 38)
    who, mail, limit = rng.choice(FIRST), f"{rng.choice(FIRST).lower()}@example.com", b % 20 + 1
    weather = (
        f"What is the weather in {city}?",
        f"How warm is it in {city} right now?",
        f"Tell me the weather for {city}.",
    )
    read = (f"Show me the file {path}.", f"Open {path}.", f"What is in {path}?")
    find = (f"Search for {word}, at most {limit} results.", f"Find up to {limit} places that mention {word}.")
    total = (f"What is {a} + {b}?", f"Add {a} and {b}.", f"Compute the sum of {a} and {b}.")
    write = (
        f'Send an e-mail to {mail} with the subject "{word} {who}".',
        f"Mail {mail}, subject: {word} {who}",
    )
    work = (f"Work on the {word} of {path}, {a} times.", f"Use the {word} tool on {path} with count {a}.")
    numbers: list[Field] = [("a", "integer", a), ("b", "integer", b)]
    letter: list[Field] = [("to", "string", mail), ("subject", "string", f"{word} {who}")]
    search: list[Field] = [("query", "string", word), ("limit", "integer", limit)]
    other: list[Field] = [(rng.choice(NOUNS), "string", path), ("count", "integer", a)]
    seen = json.dumps({"city": city, "temperature": degrees})
    return [
        Tool("get_weather", "Get the current weather in a city.", [("city", "string", city)], weather, seen),
        Tool("read_file", "Read a file.", [("path", "string", path)], read, f"def {word}():\n    return {a}"),
        Tool("search", "Search the code base.", search, find, json.dumps({"matches": a % 30})),
        Tool("add", "Add two numbers.", numbers, total, str(a + b)),
        Tool("send_email", "Send an e-mail.", letter, write, '{"sent": true}'),
        Tool(f"{rng.choice(VERBS)}_{word}", f"Work on the {word}.", other, work, '{"ok": true}'),
    ]


REPLIES = {
    "get_weather": "It is {temperature} degrees in {city}.",
    "search": "I found {matches} matches.",
    "send_email": "The e-mail was sent.",
}


def reply(name: str, result: str) -> str:
    """What the assistant says once a tool has answered."""
    if name == "read_file":
        return f"```python\n{result}\n```"
    if name == "add":
        return f"The result is {result}."
    return REPLIES.get(name, "Done.").format(**json.loads(result))


def tool_call(rng: random.Random) -> Dialogue:
    """A request that one of several tools answers: the call, and mostly the answer from its result."""
    offered = rng.sample(tools(rng), rng.randint(1, 3))
    tool = rng.choice(offered)
    dialogue = Dialogue("tool call")
    dialogue.tools = [tool.description() for tool in offered]
    if rng.random() < 0.4:
        dialogue.messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    dialogue.user(rng.choice(tool.phrasings))
    call = json.dumps({"name": tool.name, "arguments": {k: v for k, _, v in tool.arguments}})
    dialogue.answer(f"<tool_call>\n{call}\n</tool_call>")
    if rng.random() < 0.7:
        dialogue.messages.append({"role": "tool", "content": tool.result})
        dialogue.answer(reply(tool.name, tool.result))
        dialogue.kind = "tool answer"
    return dialogue
