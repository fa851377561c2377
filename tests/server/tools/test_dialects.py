"""Templates of every family: which way to call they speak, and what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from foretoken.chat import CHATML, ChatTemplate
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.dialect import Dialect, dialect_of
from foretoken.server.tools.generic import Generic
from foretoken.server.tools.hermes import Hermes
from foretoken.server.tools.llama3 import Llama3
from foretoken.server.tools.mistral import Mistral
from foretoken.server.tools.qwen_xml import QwenXml

ADD = ToolDef("add", "Adds.", {"type": "object", "properties": {"a": {"type": "integer"}}})
OWN = (Path(__file__).parents[3] / "train" / "chat_template.jinja").read_text(encoding="utf-8")
LIST = "{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}"
REST = "{% elif m.role == 'tool' %}<result>{{ m.content }}</result>{% else %}{{ m.role }}: {{ m.content }}\n{% endif %}"
MISTRAL_ID = "{% if c.id | length != 9 %}{{ raise_exception('nine letters') }}{% endif %}"


def template(call: str, before: str = "", between: str = "", after: str = "") -> str:
    """A small template that writes calls in its own way."""
    loop = f"{{% for c in m.tool_calls %}}{call}{{% if not loop.last %}}{between}{{% endif %}}{{% endfor %}}"
    return f"{LIST}{{% for m in messages %}}{{% if m.tool_calls %}}{before}{loop}{after}{REST}{{% endfor %}}"


NAMED = '{"name": "{{ c.function.name }}", "%s": {{ c.function.arguments | tojson }}}'
TEXT = "{{ '' + c.function.arguments }}"
SINGLE = "{% if m.tool_calls | length > 1 %}{{ raise_exception('one call at a time') }}{% endif %}"
XML = (
    "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>\n"
    "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>\n"
)
TEMPLATES: dict[str, tuple[str, Dialect]] = {
    "own": (OWN, Dialect(Hermes(), True, "objects")),
    "hermes": (template(f"<tool_call>{NAMED % 'arguments'}</tool_call>"), Dialect(Hermes(), True, "objects")),
    "texts": (
        template(f"<tool_call>{NAMED % 'arguments'}</tool_call>".replace("{{ c.function.arguments | tojson }}", TEXT)),
        Dialect(Hermes(), True, "texts"),
    ),
    "xml": (template(XML), Dialect(QwenXml(), True, "objects")),
    "llama3": (template(NAMED % "parameters", SINGLE), Dialect(Llama3(), True, "objects", single=True)),
    "mistral": (
        template(MISTRAL_ID + NAMED % "arguments", "[TOOL_CALLS][", ", ", "]"),
        Dialect(Mistral(listed=True), True, "objects"),
    ),
    "mistral-args": (
        template("[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}"),
        Dialect(Mistral(listed=False), True, "objects"),
    ),
    "unknown": (template("<call {{ c.function.name }}>"), Dialect(Generic(), False, "none")),
    "none": (CHATML, Dialect(Generic(), False, "none")),
}  # fmt: skip


def call(number: int, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": "add", "arguments": {"a": number}}}


HISTORY = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": "", "tool_calls": [call(1, "call_first"), call(2, "call_second")]},
    {"role": "tool", "tool_call_id": "call_first", "name": "add", "content": "result-1"},
    {"role": "tool", "tool_call_id": "call_second", "name": "add", "content": "result-2"},
]


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_template_is_recognised(name: str) -> None:
    source, wanted = TEMPLATES[name]
    found = dialect_of(ChatTemplate(source))
    assert type(found.format) is type(wanted.format)
    assert (found.native, found.history, found.single) == (wanted.native, wanted.history, wanted.single)
    if isinstance(wanted.format, Mistral):
        assert found.format.block((ADD,), True, {}) == wanted.format.block((ADD,), True, {})


@pytest.mark.parametrize("name", TEMPLATES)
def test_tools_calls_and_results_reach_the_prompt(name: str) -> None:
    chat = ChatTemplate(TEMPLATES[name][0])
    messages, variables = dialect_of(chat).told(HISTORY, (ADD,))
    prompt = chat.render(messages, **variables)
    places = [prompt.index(word) for word in ('"description": "Adds."', "result-1", "result-2")]
    assert places == sorted(places)
    assert prompt.count("Be brief.") == 1
    assert prompt.rindex("Add.") < prompt.index("result-1")
    if name != "xml":
        assert prompt.count('{"a": 1}') == prompt.count('{"a": 2}') == 1


def test_one_call_at_a_time_where_the_template_wants_that() -> None:
    messages, _ = dialect_of(ChatTemplate(TEMPLATES["llama3"][0])).told(HISTORY, ())
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [message["content"] for message in messages if message["role"] == "tool"] == ["result-1", "result-2"]


def test_arguments_as_texts_where_the_template_wants_that() -> None:
    messages, _ = dialect_of(ChatTemplate(TEMPLATES["texts"][0])).told(HISTORY, ())
    assert json.loads(messages[2]["tool_calls"][1]["function"]["arguments"]) == {"a": 2}


def test_results_belong_to_the_same_calls_under_new_names() -> None:
    messages, _ = dialect_of(ChatTemplate(TEMPLATES["mistral"][0])).told(HISTORY, ())
    names = [call["id"] for call in messages[2]["tool_calls"]]
    assert [message["tool_call_id"] for message in messages[3:]] == names
    assert all(len(name) == 9 and name.isalnum() for name in names)
    assert len(set(names)) == 2


def test_a_template_that_wants_turns_and_no_system_message() -> None:
    source = (
        "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}"
        "{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )
    chat = ChatTemplate(source)
    messages, _ = dialect_of(chat).told([*HISTORY[1:], {"role": "user", "content": "So?"}], (ADD,))
    prompt = chat.render(messages)
    places = [
        prompt.index(word) for word in ('"description": "Adds."', "Add.", '{"a": 1}', "result-1", "result-2", "So?")
    ]
    assert places == sorted(places)


def test_marks_of_what_was_trained_are_no_part_of_a_prompt() -> None:
    source = "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}!{% endfor %}"
    assert ChatTemplate(source).render([{"role": "user", "content": "Hi"}]) == "Hi!"
