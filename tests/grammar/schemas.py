"""JSON schemas, random ones too, whose answers end: every text, list and number in them is bounded."""

from __future__ import annotations

from random import Random
from typing import Any

WORDS = (
    "a",
    "name",
    "the_longest_key_of_all",
    "Größe",
    "x y",
    'with "quotes"',
    "back\\slash",
    "名",
    "0",
    "$id",
    "</b>",
)
PATTERNS = ("^[a-c]{1,4}$", r"^\d{2}-\d{2}$", "^(yes|no)$", "^x?y{1,3}z$", r"^[^\"\\a-z]{0,2}$")
FORMATS = ("uuid", "ipv4")
LONG_KEYS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "identifier_of_the_customer_in_our_records": {"type": "integer", "minimum": 0, "maximum": 999},
        "preferred_language_of_correspondence": {"enum": ["English", "German", "Portuguese"]},
        "date_of_the_latest_order_that_was_paid": {"type": "string", "pattern": "^20[0-9]{2}-(01|12)$"},
        "has_agreed_to_the_terms_and_conditions": {"type": "boolean"},
    },
    "required": [
        "identifier_of_the_customer_in_our_records",
        "preferred_language_of_correspondence",
        "date_of_the_latest_order_that_was_paid",
        "has_agreed_to_the_terms_and_conditions",
    ],
    "additionalProperties": False,
}
"""Most of an answer to this one is forced."""


def random_schema(random: Random, depth: int = 3) -> dict[str, Any]:
    """One schema; those of the same seed are the same."""
    schema = _schema(random, depth)
    if random.random() < 0.2:
        # A part that is named once and used where it is named.
        schema = {"type": "array", "items": {"$ref": "#/$defs/part"}, "maxItems": 2, "$defs": {"part": schema}}
    return schema


def _schema(random: Random, depth: int) -> dict[str, Any]:
    simple = [_text, _text, _integer, _number, _choice, _choice, _constant, _truth]
    nested = [_object, _object, _object, _array, _union, _all] if depth > 0 else []
    return random.choice(nested or simple if random.random() < 0.7 else simple)(random, depth)


def _text(random: Random, depth: int) -> dict[str, Any]:
    kind = random.randrange(4)
    if kind == 0:
        return {"type": "string", "pattern": random.choice(PATTERNS)}
    if kind == 1:
        return {"type": "string", "format": random.choice(FORMATS)}
    least = random.randrange(3)
    return {"type": "string", "minLength": least, "maxLength": least + random.randrange(6)}


def _integer(random: Random, depth: int) -> dict[str, Any]:
    low = random.randrange(-1000, 1000)
    high = low + random.randrange(500)
    if random.random() < 0.3:
        return {"type": "integer", "exclusiveMinimum": low - 1, "exclusiveMaximum": high + 1}
    return {"type": "integer", "minimum": low, "maximum": high}


def _number(random: Random, depth: int) -> dict[str, Any]:
    return {"enum": [random.randrange(-50, 50) / 4 for _ in range(3)]}


def _choice(random: Random, depth: int) -> dict[str, Any]:
    return {"enum": random.sample([*WORDS, 1, -2.5, True, None, [], {"a": []}], random.randint(1, 4))}


def _constant(random: Random, depth: int) -> dict[str, Any]:
    return {"const": random.choice([*WORDS, 0, False, None, [1, "two"], {"three": {"four": 5}}])}


def _truth(random: Random, depth: int) -> dict[str, Any]:
    return {"type": random.choice(["boolean", "null", ["boolean", "null"]])}


def _object(random: Random, depth: int) -> dict[str, Any]:
    names = random.sample(WORDS, random.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _schema(random, depth - 1) for name in names},
        "required": [name for name in names if random.random() < 0.7],
        "additionalProperties": False,
    }


def _array(random: Random, depth: int) -> dict[str, Any]:
    if random.random() < 0.3:
        items = [_schema(random, depth - 1) for _ in range(random.randint(1, 3))]
        return {"type": "array", "prefixItems": items, "items": False, "minItems": len(items)}
    least = random.randrange(2)
    return {"type": "array", "items": _schema(random, depth - 1), "minItems": least, "maxItems": least + 2}


def _union(random: Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [_schema(random, depth - 1) for _ in range(random.randint(1, 3))]}


def _all(random: Random, depth: int) -> dict[str, Any]:
    return {"allOf": [{"type": "string", "minLength": 1}, {"type": "string", "maxLength": random.randint(1, 5)}]}
