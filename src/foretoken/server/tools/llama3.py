"""Llama 3: a bare {"name": ..., "parameters": {...}}, with or without <|python_tag|> before it."""

from __future__ import annotations

from collections.abc import Sequence

from foretoken.server.tools.bare import bare_block, read_bare
from foretoken.server.tools.calls import Calls, Ids
from foretoken.server.tools.definitions import ToolDef
from foretoken.server.tools.grammar import Block, Control
from foretoken.server.tools.tape import Steps, Tape

PYTHON = "<|python_tag|>"


class Llama3:
    """Reads and constrains calls in this format."""

    marks: tuple[str, ...] = (PYTHON,)
    ids = Ids()

    def read(self, tape: Tape, calls: Calls, tools: Sequence[ToolDef]) -> Steps[None]:
        return read_bare(tape, calls, (PYTHON,))

    def block(self, tools: Sequence[ToolDef], several: bool, control: Control) -> Block:
        return bare_block(tools, "parameters", "; " if several else None)
