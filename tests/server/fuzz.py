"""Bodies that are almost right, quite wrong, or no JSON at all."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from hypothesis import strategies as st

from foretoken.server.anthropic.bodies import CountBody, MessagesBody
from foretoken.server.chat import ChatBody
from foretoken.server.completion import CompletionBody
from foretoken.server.embedding.bodies import EmbeddingBody, RerankBody
from foretoken.server.fields import REFUSED, WITHOUT_EFFECT
from foretoken.server.native_bodies import (
    DetokenizeBody,
    InfillBody,
    NativeCompletionBody,
    TemplateBody,
    TokenizeBody,
)
from foretoken.server.responses.bodies import ResponsesBody
from tests.grammar.schemas import random_schema

MESSAGES = [{"role": "user", "content": "Hi"}]
ENDPOINTS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "/v1/chat/completions": (ChatBody, {"messages": MESSAGES, "max_tokens": 2}),
    "/v1/messages": (MessagesBody, {"messages": MESSAGES, "max_tokens": 2}),
    "/v1/messages/count_tokens": (CountBody, {"messages": MESSAGES}),
    "/v1/responses": (ResponsesBody, {"input": "Hi", "max_output_tokens": 2}),
    "/v1/responses/input_tokens": (ResponsesBody, {"input": "Hi"}),
    "/v1/embeddings": (EmbeddingBody, {"input": "Hi"}),
    "/embedding": (EmbeddingBody, {"content": ["Hi", [65, 66]]}),
    "/v1/rerank": (RerankBody, {"query": "Hi", "documents": ["a", "b"]}),
    "/v1/completions": (CompletionBody, {"prompt": "Hi", "max_tokens": 2}),
    "/completion": (NativeCompletionBody, {"prompt": "Hi", "n_predict": 2}),
    "/infill": (InfillBody, {"input_prefix": "a", "input_suffix": "b", "n_predict": 2}),
    "/tokenize": (TokenizeBody, {"content": "Hi"}),
    "/detokenize": (DetokenizeBody, {"tokens": [65, 66]}),
    "/apply-template": (TemplateBody, {"messages": MESSAGES}),
}
EDGES = [
    0, -1, 1, 2, 2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**63, 2**64, 10**30, 0.0, -0.0, 0.5, 1.0, 1e-30, 1e30, 1e308,
    True, False, None, "", "none", "auto", "\x00", "é☃𝄞", "\ufffd", "<|im_end|>", "<think>", [], {}, [[]], [None], [0],
    [-1], ["a"], [[65, 1.5]], [["a", False]], {"65": 1}, {"a": None}, {"type": "text"}, {"type": "none"},
    {"n_max": 0}, [{"role": "user"}], [{"role": "user", "content": ["x"]}], [{"text": "x", "filename": "f"}],
    [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}], "required",
    [{"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{"}}]}],
    [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "1", "content": "y"}],
    {"type": "function", "function": {"name": "f"}},
    [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [1]}]}],
    [{"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "b", "input": {}}]}],
    [{"type": "function_call", "call_id": "a", "name": "f", "arguments": "{"}], [{"type": "reasoning", "summary": []}],
    [{"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "x"}]}],
    [{"type": "function", "name": "f"}], {"type": "allowed_tools", "tools": 3}, {"format": {"type": "json_object"}},
    [{"name": "f", "input_schema": {"type": "object"}}], {"type": "any"}, {"type": "tool", "name": "f"},
    {"type": "enabled", "budget_tokens": 5}, {"format": {"type": "json_schema", "schema": {"type": "no"}}},
]  # fmt: skip
VALUES = st.one_of(
    st.sampled_from(EDGES),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=20)),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=6,
    ),
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, bytes]:
    """An endpoint and a body for it."""
    path = draw(st.sampled_from(sorted(ENDPOINTS)))
    kind, valid = ENDPOINTS[path]
    if draw(st.integers(0, 9)) == 0:
        return path, draw(st.binary(max_size=60) | VALUES.map(lambda value: json.dumps(value).encode()))
    names = sorted({*kind.model_fields, *REFUSED, *WITHOUT_EFFECT, "speculative.n_max", "tools", "response_format"})
    changed = draw(st.dictionaries(st.sampled_from(names), VALUES, min_size=1, max_size=4))
    data = json.dumps({**valid, **changed}).encode()
    if draw(st.integers(0, 9)) == 0:
        at = draw(st.integers(0, len(data)))
        data = data[:at] + draw(st.binary(max_size=4)) + data[at + draw(st.integers(0, 4)) :]
    return path, data


GRAMMARS = [
    'root ::= "a" [b-d]{2,4} | x\nx ::= "y"+ root?\n',
    "[a-c]{2,5}(x|y)*",
    'start: "a" /[0-9]+/ %json {"type": "null"}',
]


@st.composite
def constraints(draw: st.DrawFn) -> tuple[str, bytes]:
    """An endpoint and a body with a schema or grammar in it that was right before something happened to it."""
    path = draw(st.sampled_from(["/v1/chat/completions", "/v1/completions", "/completion", "/v1/messages"]))
    schema = _spoilt(draw, random_schema(Random(draw(st.integers(0, 2**32)))))
    fields: list[dict[str, Any]] = [
        {"json_schema": schema},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}},
        {"output_config": {"format": {"type": "json_schema", "schema": schema}}},
        *({name: _torn(draw, text)} for name, text in zip(("grammar", "regex", "lark"), GRAMMARS, strict=True)),
    ]
    return path, json.dumps({**ENDPOINTS[path][1], **draw(st.sampled_from(fields))}).encode()


def _spoilt(draw: st.DrawFn, node: Any) -> Any:
    """The same with, mostly, one part of it exchanged."""
    if draw(st.integers(0, 7)) == 0:
        return draw(VALUES)
    if isinstance(node, dict) and node:
        name = draw(st.sampled_from(sorted(node)))
        return {**node, name: _spoilt(draw, node[name])}
    if isinstance(node, list) and node:
        return [_spoilt(draw, node[0]), *node[1:]]
    return node


def _torn(draw: st.DrawFn, text: str) -> str:
    at = draw(st.integers(0, len(text)))
    return text[:at] + draw(st.text(max_size=3)) + text[at + draw(st.integers(0, 3)) :]
