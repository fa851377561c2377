"""The grammars of every family: what they let through, and what not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from foretoken.grammar.compiler import Compiler
from foretoken.llama.guidance import guidance_tokenizer
from foretoken.llama.model import Model
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import calls_between_text, calls_only, calls_or_json
from foretoken.types import Constraint
from tests.server.tools.test_formats import (
    FORMATS,
    JSON_PARIS,
    JSON_SUM,
    LLAMA_PARIS,
    LLAMA_SUM,
    TOOLS,
    XML_PARIS,
    XML_SUM,
)
from tests.tiny.vocabulary import token_id

ONE = {
    "hermes": f"<tool_call>\n{JSON_PARIS}\n</tool_call>",
    "qwen-xml": f"<tool_call>\n{XML_PARIS}\n</tool_call>",
    "llama3": LLAMA_PARIS,
    "mistral": f"[TOOL_CALLS][{JSON_PARIS}]",
    "mistral-args": '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    "generic": JSON_PARIS,
}
TWO = {
    "hermes": f"{ONE['hermes']}\n<tool_call>\n{JSON_SUM}\n</tool_call>",
    "qwen-xml": f"{ONE['qwen-xml']}\n<tool_call>\n{XML_SUM}\n</tool_call>",
    "llama3": f"{LLAMA_PARIS}; {LLAMA_SUM}",
    "mistral": f"[TOOL_CALLS][{JSON_PARIS}, {JSON_SUM}]",
    "mistral-args": f'{ONE["mistral-args"]}[TOOL_CALLS]add[ARGS]{{"a": 1, "b": 2}}',
    "generic": f"{JSON_PARIS}\n{JSON_SUM}",
}
Accepts = Callable[[str, str], bool]


@pytest.fixture(scope="module")
def model(tiny_model: Callable[..., Model]) -> Model:
    return tiny_model("qwen35")


@pytest.fixture(scope="module")
def accepts(model: Model) -> Accepts:
    compiler = Compiler(lambda: guidance_tokenizer(model.vocabulary))
    end = token_id("<|im_end|>")

    def accepts(lark: str, text: str) -> bool:
        """Whether a text keeps to a grammar from its first token to its end."""
        tokens = [*model.vocabulary.tokenize(text, add_special=False), end]
        return compiler.compile(Constraint("lark", lark)).n_valid(tokens) == len(tokens)

    return accepts


@pytest.mark.parametrize("name", FORMATS)
def test_calls_that_must_come(name: str, accepts: Accepts) -> None:
    lark = calls_only(FORMATS[name].block(TOOLS, True, {}), {})
    assert accepts(lark, ONE[name])
    assert accepts(lark, TWO[name])
    for wrong in ("Hi", "", ONE[name].replace("get_weather", "rm"), f"Hi {ONE[name]}", ONE[name][:-1]):
        assert not accepts(lark, wrong), wrong


@pytest.mark.parametrize("name", FORMATS)
def test_calls_that_may_come(name: str, accepts: Accepts) -> None:
    lark = calls_between_text(FORMATS[name].block(TOOLS, True, {}), {})
    for right in ("Hi.\n", "", ONE[name], TWO[name], f"Hi.\n{ONE[name]}", "1 < 2 [3] {4}"):
        assert accepts(lark, right), right
    for wrong in (ONE[name].replace("get_weather", "rm"), f"Hi {ONE[name][:-1]}"):
        assert not accepts(lark, wrong), wrong


@pytest.mark.parametrize("name", FORMATS)
def test_one_call_at_a_time(name: str, accepts: Accepts) -> None:
    block = FORMATS[name].block(TOOLS, False, {})
    for lark in (calls_only(block, {}), calls_between_text(block, {})):
        assert accepts(lark, ONE[name])
        assert not accepts(lark, TWO[name])


@pytest.mark.parametrize("name", FORMATS)
def test_arguments_keep_to_their_schema(name: str, accepts: Accepts) -> None:
    schema = {"type": "object", "properties": {"city": {"enum": ["Paris", "Rome"]}}, "required": ["city"]}
    strict = ToolDef("get_weather", None, {**schema, "additionalProperties": False}, strict=True)
    lark = calls_only(FORMATS[name].block((strict,), True, {}), {})
    assert accepts(lark, ONE[name])
    assert accepts(lark, ONE[name].replace("Paris", "Rome"))
    assert not accepts(lark, ONE[name].replace("Paris", "Oslo"))
    assert not accepts(lark, ONE[name].replace("city", "town"))


@pytest.mark.parametrize("name", FORMATS)
def test_calls_or_an_answer_of_a_schema(name: str, accepts: Accepts) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    lark = calls_or_json(FORMATS[name].block(TOOLS, True, {}), {}, schema)
    assert accepts(lark, '{"n": 1}')
    assert accepts(lark, ONE[name])
    assert accepts(lark, TWO[name]) == (name not in ("llama3", "generic"))
    for wrong in ("Hi", '{"m": 1}', ONE[name] + '{"n": 1}', ONE[name].replace("get_weather", "rm")):
        assert not accepts(lark, wrong), wrong


def test_marks_that_are_control_tokens(accepts: Accepts) -> None:
    control = {"[TOOL_CALLS]": token_id("<|im_start|>"), "[ARGS]": token_id("<|fim_prefix|>")}
    block = FORMATS["mistral-args"].block(TOOLS, True, control)
    call = '<|im_start|>add<|fim_prefix|>{"a": 1, "b": 2}'
    assert accepts(calls_only(block, control), call + call)
    assert accepts(calls_between_text(block, control), f"Hi.{call}")
    assert not accepts(calls_between_text(block, control), "Hi.<|im_start|>rm")
    assert not accepts(calls_only(block, control), call.replace("<|im_start|>", "[TOOL_CALLS]"))


def test_what_a_grammar_cannot_express_is_left_out_unless_it_is_strict(accepts: Accepts) -> None:
    odd = {
        "type": "object",
        "properties": {"city": {"type": "string", "format": "place-name"}},
        "if": {"required": ["city"]},
    }
    lark = calls_only(FORMATS["hermes"].block((ToolDef("get_weather", None, odd),), True, {}), {})
    assert accepts(lark, ONE["hermes"])
