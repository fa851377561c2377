"""What a body may say about the shape of the answer: OpenAI's response_format, llama.cpp's fields, and two of ours."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

from foretoken.errors import InvalidRequest
from foretoken.types import ANY_OBJECT, Constraint


class ConstraintFields(BaseModel):
    """At most one of these; none leaves the answer free."""

    response_format: Any = Field(None, description="text, json_object or json_schema, as in OpenAI's API.")
    json_schema: Any = Field(None, description="A JSON schema the answer keeps to.")
    grammar: str | None = Field(None, description="A grammar in llama.cpp's GBNF.")
    regex: str | None = Field(None, description="A regular expression for the whole answer.")
    lark: str | None = Field(None, description="A grammar in llguidance's dialect of Lark.")

    @property
    def constraint(self) -> Constraint | None:
        """What the answer must keep to."""
        given = {
            "response_format": _from_format(self.response_format),
            "json_schema": None if self.json_schema is None else _schema(self.json_schema, strict=False),
            "grammar": Constraint("gbnf", self.grammar) if self.grammar else None,
            "regex": Constraint("regex", self.regex) if self.regex else None,
            "lark": Constraint("lark", self.lark) if self.lark else None,
        }
        found = {name: constraint for name, constraint in given.items() if constraint is not None}
        if len(found) > 1:
            raise InvalidRequest(f"{' and '.join(found)}: an answer keeps to one of them; leave the others out")
        return next(iter(found.values()), None)


def _from_format(value: Any) -> Constraint | None:
    if value in (None, {}):
        return None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InvalidRequest('response_format: give an object with a type, such as {"type": "json_object"}')
    kind = value["type"]
    if kind == "text":
        return None
    if kind == "json_object":
        # llama.cpp's server takes a schema here too.
        return ANY_OBJECT if value.get("schema") is None else _schema(value["schema"], strict=False)
    if kind == "json_schema":
        return _from_json_schema(value)
    raise InvalidRequest(f"response_format: {kind[:64]!r} is none of text, json_object and json_schema")


def _from_json_schema(value: dict[str, Any]) -> Constraint:
    inner = value.get("json_schema", value)
    if not isinstance(inner, dict) or "schema" not in inner:
        raise InvalidRequest('response_format: json_schema needs {"name": ..., "schema": {...}}')
    return _schema(inner["schema"], strict=inner.get("strict") is True)


def _schema(schema: Any, *, strict: bool) -> Constraint:
    """A schema as a constraint; one that is not strict may hold what cannot be enforced, and that is not enforced."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise InvalidRequest("a JSON schema is an object")
    own = schema.get("x-guidance", {})
    if not strict and isinstance(own, dict):
        schema = {**schema, "x-guidance": {"lenient": True, **own}}
    return Constraint("json_schema", json.dumps(schema))
