"""Every family's way to call: what is read, however it is cut; nothing lost; nothing raises."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretoken.server.reading import CallArguments, CallBroken, CallEnded, CallStarted, Delta, Reader, Said, Text
from foretoken.server.tools.definitions import ToolDef, ToolUse
from foretoken.server.tools.dialect import Dialect, ToolFormat
from foretoken.server.tools.generic import Generic
from foretoken.server.tools.hermes import Hermes
from foretoken.server.tools.llama3 import Llama3
from foretoken.server.tools.mistral import Mistral
from foretoken.server.tools.qwen_xml import QwenXml

TOOLS = (
    ToolDef("get_weather", None, {"type": "object", "properties": {"city": {"type": "string"}}}),
    ToolDef("add", None, {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}),
)
USE = ToolUse(TOOLS, TOOLS)
PARIS, SUM = ("get_weather", {"city": "Paris"}), ("add", {"a": 1, "b": 2})

FORMATS: dict[str, ToolFormat] = {
    "hermes": Hermes(),
    "qwen-xml": QwenXml(),
    "llama3": Llama3(),
    "mistral": Mistral(listed=True),
    "mistral-args": Mistral(listed=False),
    "generic": Generic(),
}
XML_PARIS = "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function>"
XML_SUM = "<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n2\n</parameter>\n</function>"
JSON_PARIS = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
JSON_SUM = '{"name": "add", "arguments": {"a": 1, "b": 2}}'
LLAMA_PARIS, LLAMA_SUM = JSON_PARIS.replace("arguments", "parameters"), JSON_SUM.replace("arguments", "parameters")

CUT, BAD = '<tool_call>{"name": "add", "arguments": {"a": 1', '<tool_call>{"name": "add", "arguments": {a}} x'
NAN = '<tool_call>{"name": "add", "arguments": {"a": NaN}}'
BROKEN_LINE = ("get_weather", {"city": "Par\nis"})
TWO_XML = f"So:\n\n<tool_call>\n{XML_PARIS}\n</tool_call>\n<tool_call>\n{XML_SUM}\n</tool_call>"
TWO_ARGS = '[TOOL_CALLS]get_weather[CALL_ID]abc[ARGS]{"city": "Paris"}[TOOL_CALLS]add[ARGS]{"a": 1, "b": 2}'

CASES = [
    # format, what the model writes, the text in it, the calls in it
    ("hermes", f"<tool_call>\n{JSON_PARIS}\n</tool_call>", "", [PARIS]),
    ("hermes", f"Let me see.\n<tool_call>\n{JSON_PARIS}\n</tool_call>\n", "Let me see.", [PARIS]),
    ("hermes", f"<tool_call>\n{JSON_PARIS}\n</tool_call>\n<tool_call>{JSON_SUM}</tool_call>", "", [PARIS, SUM]),
    ("hermes", f"<tool_call>{JSON_PARIS}", "", [PARIS]),
    ("hermes", f"<tool_call>{JSON_PARIS[:-1]}</tool_call>", "", [PARIS]),
    ("hermes", '<tool_call>{"arguments": {"a": 1, "b": 2}, "name": "add"}</tool_call>', "", [SUM]),
    ("hermes", '<tool_call>{"name": "add", "arguments": "{\\"a\\": 1, \\"b\\": 2}"}</tool_call>', "", [SUM]),
    ("hermes", '<tool_call>{"name": "add"}</tool_call>', "", [("add", {})]),
    ("hermes", '<tool_call>{"name": "add", "arguments": null}</tool_call>', "", [("add", {})]),
    ("hermes", f"<tool_call>{JSON_SUM}</tool_call> Done.", " Done.", [SUM]),
    ("hermes", "a <tool_call> is a tag", "a <tool_call> is a tag", []),
    ("hermes", f"<tool_call> <tool_call>{JSON_SUM}</tool_call>", "<tool_call>", [SUM]),
    ("hermes", '<tool_call>{"name": "rm", "arguments": {}}', '<tool_call>{"name": "rm", "arguments": {}}', []),
    ("hermes", CUT, CUT, []),
    ("hermes", BAD, BAD, []),
    ("hermes", NAN, NAN, []),
    ("hermes", JSON_PARIS.join(["<tool_call>", ""]).replace("Par", "Par\n"), "", [BROKEN_LINE]),
    ("qwen-xml", f"<tool_call>\n{XML_PARIS}\n</tool_call>", "", [PARIS]),
    ("qwen-xml", TWO_XML, "So:", [PARIS, SUM]),
    ("qwen-xml", XML_SUM, "", [SUM]),
    ("qwen-xml", XML_PARIS.replace("Paris", "\nA <b>\n\nc\n"), "", [("get_weather", {"city": "\nA <b>\n\nc\n"})]),
    ("qwen-xml", XML_SUM.replace("2", "two"), "", [("add", {"a": 1, "b": "two"})]),
    ("qwen-xml", "<function=add>x \n", "<function=add>x \n", []),
    ("qwen-xml", "<function=rm>\n</function>", "<function=rm>\n</function>", []),
    ("qwen-xml", XML_PARIS[:50], XML_PARIS[:50], []),
    ("llama3", LLAMA_PARIS, "", [PARIS]),
    ("llama3", f"<|python_tag|>{LLAMA_PARIS}", "", [PARIS]),
    ("llama3", f"{LLAMA_PARIS}; {LLAMA_SUM}", "", [PARIS, SUM]),
    ("llama3", f"\n\n{LLAMA_PARIS}\n{LLAMA_SUM}\n", "", [PARIS, SUM]),
    ("llama3", f"Sure: {LLAMA_SUM}", "Sure:", [SUM]),
    ("llama3", '{"name": "Bob", "age": 3}', '{"name": "Bob", "age": 3}', []),
    ("llama3", "{a set} and <|python_tag|>print(1)", "{a set} and <|python_tag|>print(1)", []),
    ("mistral", f"[TOOL_CALLS][{JSON_PARIS}]", "", [PARIS]),
    ("mistral", f"[TOOL_CALLS] [{JSON_PARIS}, {JSON_SUM}]", "", [PARIS, SUM]),
    ("mistral", f"[TOOL_CALLS][{JSON_PARIS}, oops]", " oops]", [PARIS]),
    ("mistral", '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1, "b": 2}, "id": "a12345678"}]', "", [SUM]),
    ("mistral", "[TOOL_CALLS][]", "[TOOL_CALLS][]", []),
    ("mistral-args", '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}', "", [PARIS]),
    ("mistral-args", TWO_ARGS, "", [PARIS, SUM]),
    ("mistral-args", "[TOOL_CALLS]rm[ARGS]{}", "[TOOL_CALLS]rm[ARGS]{}", []),
    ("generic", JSON_PARIS, "", [PARIS]),
    ("generic", f"[{JSON_PARIS}, {JSON_SUM}]", "", [PARIS, SUM]),
    ("generic", f"{JSON_PARIS}\n{JSON_SUM}", "", [PARIS, SUM]),
    ("generic", f"I call it.\n\n{JSON_PARIS}", "I call it.", [PARIS]),
    ("generic", '  {"x": [1, 2]}', '  {"x": [1, 2]}', []),
    ("generic", "[1] is a list", "[1] is a list", []),
]  # fmt: skip


def read(name: str, pieces: list[str]) -> tuple[list[Delta], Said]:
    reader = Reader(None, Dialect(FORMATS[name], True, "objects").parser(USE))
    deltas = [delta for piece in pieces for delta in reader.push(piece)]
    return deltas + reader.finish(), reader.said


def found(said: Said) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in said.calls]


def merged(deltas: list[Delta]) -> list[object]:
    """The same whatever the pieces were: neighbouring texts and arguments joined, identifiers left out."""
    out: list[list[object]] = []
    for delta in deltas:
        match delta:
            case Text(text) if out and out[-1][0] == "text":
                out[-1][1] += text  # type: ignore[operator]
            case Text(text):
                out.append(["text", text])
            case CallArguments(index, text) if out and out[-1][0] == "arguments":
                out[-1][2] += text  # type: ignore[operator]
            case CallArguments(index, text):
                out.append(["arguments", index, text])
            case CallStarted(index, _, name):
                out.append(["start", index, name])
            case other:
                out.append([type(other).__name__, other.index, other.source])  # type: ignore[union-attr]
    return [tuple(entry) for entry in out]


def sources(deltas: list[Delta]) -> str:
    """Everything the model wrote, put together again."""
    kept = (Text, CallEnded, CallBroken)
    return "".join(d.text if isinstance(d, Text) else d.source for d in deltas if isinstance(d, kept))  # type: ignore[union-attr]


def pieces_at(text: str, cuts: list[int]) -> list[str]:
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(places)]


@pytest.mark.parametrize(("name", "text", "content", "calls"), CASES)
def test_what_is_read(name: str, text: str, content: str, calls: list[object]) -> None:
    deltas, said = read(name, [text])
    assert found(said) == calls
    assert said.content == content
    letters, _ = read(name, list(text))
    assert merged(letters) == merged(deltas)
    assert sources(deltas) == (text.rstrip() if calls and not content.endswith(text[-1:]) else text)


@given(st.sampled_from(CASES), st.lists(st.integers(0, 500), max_size=12))
def test_any_cut_reads_the_same(case: tuple[str, str, str, list[object]], cuts: list[int]) -> None:
    name, text, _, _ = case
    assert merged(read(name, pieces_at(text, cuts))[0]) == merged(read(name, [text])[0])


WORDS = [
    "<tool_call>", "</tool_call>", "<tool_call", "<function=", "<function=add>", "</function>", "<parameter=a>",
    "</parameter>",
    "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "<|python_tag|>", '{"name": ', '"add"', '"rm"', '"arguments": ',
    '"parameters": ', "add", "get_weather", "{", "}", "[", "]", '"', "\\", ",", ":", ";", "\n", " ", "1", "null",
    "text", "é", "\x00", '{"a": 1}', JSON_SUM, XML_PARIS,
]  # fmt: skip
GARBAGE = st.lists(st.sampled_from(WORDS) | st.text(max_size=3), max_size=25).map("".join)


@given(st.sampled_from(sorted(FORMATS)), GARBAGE, st.lists(st.integers(0, 500), max_size=8))
def test_garbage_is_never_lost_and_never_raises(name: str, text: str, cuts: list[int]) -> None:
    deltas, said = read(name, pieces_at(text, cuts))
    again = sources(deltas)
    assert again == text or (said.calls and again == text[: len(again)] and not text[len(again) :].strip())
    assert merged(deltas) == merged(read(name, [text])[0])
    for call in said.calls:
        assert isinstance(json.loads(call.arguments), dict)
        assert call.name in ("add", "get_weather")


def test_arguments_stream_while_they_are_written() -> None:
    reader = Reader(None, Dialect(Hermes(), True, "objects").parser(USE))
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Par'
    kinds = [type(delta).__name__ for letter in text for delta in reader.push(letter)]
    assert kinds == ["CallStarted", *["CallArguments"] * len('{"city": "Par')]


def test_a_thought_before_a_call() -> None:
    reader = Reader(True, Dialect(Hermes(), True, "objects").parser(USE))
    for letter in f"I could <tool_call>.\n</think>\n\n<tool_call>\n{JSON_SUM}\n</tool_call>":
        reader.push(letter)
    reader.finish()
    assert reader.said.reasoning == "I could <tool_call>."
    assert (reader.said.content, found(reader.said)) == ("", [SUM])
