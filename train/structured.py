"""JSON work: extraction under a schema, edits of a document, and tool calls with their answers."""

import json
import random
from typing import Any

from chat import Dialogue
from words import NOUNS, SYSTEMS, new_name, request

FIRST = (
    "Ada Alan Grace Linus Anna Omar Mei Ivan Sofia Raj Noah Emma Lucas Yuki Fatima Diego Clara Hugo Nina "
    "Paul Iris Tom Zoe Max"
).split()
LAST = (
    "Smith Chen Garcia Novak Kim Okafor Rossi Silva Khan Meyer Tanaka Dubois Brown Singh Larsen Costa "
    "Wong Moreau Hall Ortiz"
).split()
CITIES = (
    "Paris Berlin Tokyo Lagos Madrid Oslo Rome Delhi Lima Cairo Boston Dublin Seoul Vienna Prague Sydney "
    "Toronto Zurich"
).split()
THINGS = (
    "keyboard laptop chair lamp phone bottle notebook camera backpack desk monitor bicycle printer router "
    "cable mug"
).split()
LEVELS = ("low", "medium", "high", "critical")

Field = tuple[str, str, Any]


def person(rng: random.Random) -> tuple[str, list[Field]]:
    """A sentence about a person and its fields."""
    name, age, city = f"{rng.choice(FIRST)} {rng.choice(LAST)}", rng.randint(18, 90), rng.choice(CITIES)
    job = rng.choice(("engineer", "teacher", "doctor", "designer", "writer", "analyst", "chef", "pilot"))
    forms = (
        f"{name} is {age} years old, lives in {city} and works as a {job}.",
        f"My colleague {name} ({age}) is a {job} from {city}.",
        f"In {city} we met {name}, a {job} aged {age}.",
        f"Name: {name}\nAge: {age}\nCity: {city}\nJob: {job}",
    )
    return rng.choice(forms), [
        ("name", "string", name),
        ("age", "integer", age),
        ("city", "string", city),
        ("job", "string", job),
    ]


def order(rng: random.Random) -> tuple[str, list[Field]]:
    """A sentence about an order and its fields."""
    number, count, thing = rng.randint(100, 99999), rng.randint(1, 40), rng.choice(THINGS)
    price, buyer = round(rng.uniform(1, 500), 2), rng.choice(FIRST)
    forms = (
        f"Order {number}: {buyer} bought {count} x {thing} for {price} dollars.",
        f"{buyer} ordered {count} pieces of {thing} at a total of {price}. The order number is {number}.",
        f"Please ship order #{number} ({count} {thing}, {price} USD) to {buyer}.",
    )
    fields = [("order", "integer", number), ("item", "string", thing), ("quantity", "integer", count)]
    return rng.choice(forms), [*fields, ("price", "number", price), ("customer", "string", buyer)]


def ticket(rng: random.Random) -> tuple[str, list[Field]]:
    """A bug report and its fields."""
    part, level = new_name(rng), rng.choice(LEVELS)
    line, is_open = rng.randint(1, 2000), rng.random() < 0.5
    version = f"{rng.randint(0, 9)}.{rng.randint(0, 20)}.{rng.randint(0, 9)}"
    state = "open" if is_open else "closed"
    forms = (
        f"Bug in {part} since version {version}: crash at line {line}. "
        f"Severity {level}. The ticket is {state}.",
        f"[{level}] {part} fails in {version} (line {line}), status: {state}",
        f"The {state} ticket says that {part} breaks at line {line} in version {version}; "
        f"its severity is {level}.",
    )
    fields = [("component", "string", part), ("version", "string", version), ("line", "integer", line)]
    return rng.choice(forms), [*fields, ("severity", "string", level), ("open", "boolean", is_open)]


def server(rng: random.Random) -> tuple[str, list[Field]]:
    """A line about a server and its fields."""
    host, port, cores = (
        f"{rng.choice(NOUNS)}-{rng.randint(1, 99)}",
        rng.randint(80, 9999),
        rng.choice((1, 2, 4, 8, 16, 32, 64)),
    )
    tags = rng.sample(NOUNS, rng.randint(1, 3))
    forms = (
        f"The server {host} listens on port {port} and has {cores} cores. Tags: {', '.join(tags)}.",
        f"{host}:{port} ({cores} cores) is tagged {', '.join(tags)}.",
    )
    fields = [("host", "string", host), ("port", "integer", port), ("cores", "integer", cores)]
    return rng.choice(forms), [*fields, ("tags", "array", tags)]


RECORDS = (person, order, ticket, server)
EXTRACT = (
    "Extract the data from the text as JSON that follows this schema:\n{schema}\n\nText: {text}",
    "{text}\n\nReturn a JSON object with this schema:\n{schema}",
    "Schema:\n{schema}\n\nExtract a matching JSON object from:\n{text}",
    "Read the text and answer only with JSON.\n\nText: {text}\n\nJSON schema: {schema}",
)


def extraction(rng: random.Random) -> Dialogue:
    """Ask for some fields of a sentence as JSON under a schema, in the schema's order."""
    text, fields = rng.choice(RECORDS)(rng)
    chosen = rng.sample(fields, rng.randint(2, len(fields)))
    properties = {
        n: {"type": t} if t != "array" else {"type": t, "items": {"type": "string"}} for n, t, _ in chosen
    }
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": [n for n, _, _ in chosen],
    }
    dialogue = Dialogue("json extraction")
    if rng.random() < 0.3:
        dialogue.messages.append({"role": "system", "content": rng.choice(SYSTEMS)})
    written = json.dumps(schema, indent=2 if rng.random() < 0.2 else None)
    dialogue.user(rng.choice(EXTRACT).format(schema=written, text=text))
    dialogue.answer(json.dumps({n: v for n, _, v in chosen}))
    return dialogue


def document(rng: random.Random, depth: int = 0) -> dict[str, Any]:
    """A random JSON object."""

    def value() -> Any:
        roll = rng.random()
        if roll < 0.6:
            return rng.randint(0, 10 ** rng.randint(1, 4)) if roll < 0.3 else new_name(rng)
        if roll < 0.75:
            return rng.choice((True, False, None))
        if roll < 0.9 and depth < 2:
            return document(rng, depth + 1)
        return [rng.choice((rng.randint(0, 99), rng.choice(NOUNS))) for _ in range(rng.randint(1, 4))]

    return {new_name(rng): value() for _ in range(rng.randint(2, 7))}


SET = (
    "Set `{key}` to {value}.",
    'Change the value of "{key}" to {value}.',
    'Set "{key}" to {value}.',
    "Change {key} to {value}.",
)
DROP = ('Remove the key "{key}".', "Delete `{key}`.", "Remove {key}.")
PUT = ('Add a key "{key}" with the value {value}.', "Add `{key}`: {value}.")
RENAME = ('Rename the key "{key}" to "{value}".', "Rename `{key}` to `{value}`.")


def json_edit(rng: random.Random) -> Dialogue:
    """Change one key of a JSON document and re-emit it."""
    data = document(rng)
    key, new = rng.choice(list(data)), new_name(rng)
    value: Any = rng.choice((rng.randint(0, 9999), new_name(rng), True, False, None))
    roll = rng.random()
    if roll < 0.5:
        changed, templates = {**data, key: value}, SET
    elif roll < 0.7:
        changed, templates = {k: v for k, v in data.items() if k != key}, DROP
    elif roll < 0.85:
        changed, templates, key = {**data, new: value}, PUT, new
    else:
        changed, templates, value = {(new if k == key else k): v for k, v in data.items()}, RENAME, new
    written = str(value) if templates is RENAME else json.dumps(value)
    before, after = (json.dumps(d, indent=2) for d in (data, changed))
    dialogue = Dialogue("json edit")
    dialogue.user(f"{request(rng, templates, key=key, value=written)}\n\n```json\n{before}\n```")
    dialogue.answer(f"```json\n{after}\n```", before)
    return dialogue
