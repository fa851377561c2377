"""From a constraint to a grammar over a model's tokens, or to the reason why there is none."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark

from foretoken.errors import InvalidRequest
from foretoken.grammar.grammar import Grammar
from foretoken.types import Constraint

MAX_SOURCE = 128 * 1024
"""Bytes of a schema or grammar: what is longer takes seconds to compile."""
_MAX_REASON = 500

STYLE: dict[str, Any] = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "coerce_one_of": True,
}
"""How JSON is written: on one line, as models mostly do. A model that may write blanks anywhere may write them for
ever, and only where nothing is left to choose can tokens be forced. A schema's own "x-guidance" comes before this."""

_LIMITS = LLParserLimits(
    # Both are reached within seconds and tens of megabytes, by hostile grammars only.
    max_lexer_states=50_000,
    max_grammar_size=200_000,
    verbose_errors=False,
)
_THOUGHT = {
    "open": r"""
        start: thought BREAK? @answer
        thought[lazy]: /(.|\n)*<\/think>/
        BREAK: /\n{1,2}/
    """,
    "may": r"""
        start: (thought BREAK?)? @answer
        thought[lazy]: /<think>(.|\n)*<\/think>/
        BREAK: /\n{1,2}/
    """,
}
"""A thought is free until it closes; the answer begins behind it."""


class Compiler:
    """Compiles constraints for one model; safe to use from several threads."""

    def __init__(self, tokenizer: Callable[[], LLTokenizer]) -> None:
        self._make_tokenizer = tokenizer
        self._tokenizer: LLTokenizer | None = None
        self._lock = threading.Lock()

    def compile(self, constraint: Constraint) -> Grammar:
        """The grammar at its beginning; `InvalidRequest` carries the reason if it is none, or too costly."""
        source = _source(constraint)
        matcher = LLMatcher(self.make_ready(), source, log_level=0, limits=_LIMITS)
        # Some grammars turn out to be empty, or too large, only when they are first used.
        matcher.compute_bitmask()
        if matcher.is_error():
            raise _refused(constraint, matcher.get_error())
        return Grammar(matcher)

    def make_ready(self) -> LLTokenizer:
        """Take in the vocabulary, unless that was done; for a large one it takes a second, and stops other threads."""
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = self._make_tokenizer()
            return self._tokenizer


def _source(constraint: Constraint) -> str:
    """The constraint in llguidance's own format."""
    if len(constraint.source.encode("utf-8", "replace")) > MAX_SOURCE:
        raise _refused(constraint, f"it is longer than {MAX_SOURCE // 1024} KiB")
    try:
        answer = _grammar(constraint)
    except (ValueError, RecursionError, AssertionError, IndexError) as error:
        raise _refused(constraint, str(error)) from None
    grammars = [{"name": "answer", **answer}]
    if constraint.thought != "none":
        grammars.insert(0, {"name": "thought", "lark_grammar": _THOUGHT[constraint.thought]})
    return json.dumps({"grammars": grammars})


def _grammar(constraint: Constraint) -> dict[str, Any]:
    source = constraint.source
    if constraint.kind == "json_schema":
        return {"json_schema": styled(json.loads(source))}
    if constraint.kind == "regex":
        found: dict[str, Any] = json.loads(LLMatcher.grammar_from_regex(source))["grammars"][0]
        return {"lark_grammar": found["lark_grammar"]}
    if constraint.kind == "gbnf":
        return {"lark_grammar": _from_gbnf(source)}
    return {"lark_grammar": source}


def styled(schema: Any) -> Any:
    """A schema that says how its JSON is written."""
    if schema is True:
        schema = {}
    if not isinstance(schema, dict):
        return schema
    own = schema.get("x-guidance")
    return {**schema, "x-guidance": {**STYLE, **own} if isinstance(own, dict) else own or STYLE}


def _from_gbnf(source: str) -> str:
    try:
        return gbnf_to_lark(source)
    except RecursionError:
        raise ValueError("its groups are nested too deeply") from None
    except Exception as error:
        # The converter raises bare exceptions for what is wrong in a grammar.
        raise ValueError(str(error)) from None


def _refused(constraint: Constraint, reason: str) -> InvalidRequest:
    if constraint.origin:
        # Lines and places of a source that the client never saw would tell it nothing.
        reason = re.sub(r"^at \d+\(\d+\): ", "", reason.split("\n", 1)[0])
        return InvalidRequest(f"the {constraint.origin} cannot be used: {shortened(reason)}")
    name = {"json_schema": "JSON schema", "gbnf": "grammar", "regex": "regex", "lark": "lark grammar"}[constraint.kind]
    return InvalidRequest(f"the {name} cannot be used: {shortened(reason)}")


def shortened(reason: str) -> str:
    """A reason of llguidance's without the parser's state behind it."""
    reason = reason.split("\n<", 1)[0].strip() or "no answer could ever satisfy it"
    return reason if len(reason) <= _MAX_REASON else f"{reason[:_MAX_REASON]} ..."
