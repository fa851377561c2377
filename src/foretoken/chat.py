"""Chat templates: a GGUF carries the jinja program that turns messages into its prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from jinja2 import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from foretoken.errors import InvalidRequest

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models that carry no template of their own."""

OPEN, CLOSE = "<think>", "</think>"
"""What models write around their thoughts."""


class _Generation(Extension):
    """{% generation %} marks what a model was trained to say; for a prompt it is what stands inside."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return list(parser.parse_statements(("name:endgeneration",), drop_needle=True))


class ChatTemplate:
    """Renders messages into the prompt a model was trained on; the template is untrusted and sandboxed."""

    def __init__(self, source: str | None, bos: str = "", eos: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        self.source = source or CHATML
        self.bos, self.eos = bos, eos
        try:
            self._template = environment.from_string(self.source)
        except TemplateError as error:
            raise InvalidRequest(f"the model's chat template is broken: {error}") from error

    def render(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True, **variables: Any
    ) -> str:
        """The prompt for these messages; what the template refuses is the caller's mistake."""
        try:
            return self._template.render(
                messages=list(messages),
                add_generation_prompt=add_generation_prompt,
                bos_token=self.bos,
                eos_token=self.eos,
                **variables,
            )
        except InvalidRequest:
            raise
        except Exception as error:
            raise InvalidRequest(f"the model's chat template refuses these messages: {error}") from error

    def thought_before(self, prompt: str) -> Literal["none", "may", "open"]:
        """What of thinking comes before an answer to this prompt: none, perhaps one, or the rest of one."""
        end = prompt.rstrip()
        if end.endswith(OPEN):
            return "open"
        return "may" if CLOSE in self.source and not end.endswith(CLOSE) else "none"


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **_: Any) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii)


def _refuse(message: str) -> None:
    raise InvalidRequest(f"the model's chat template says: {message}")
