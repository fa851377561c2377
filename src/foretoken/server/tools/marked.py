"""Families that put a mark before every call: text, a mark, a call, and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foretoken.server.reading import Text
from foretoken.server.tools.calls import Calls, attempt
from foretoken.server.tools.tape import Steps, Tape, tell_until


def read_marked(
    tape: Tape, calls: Calls, marks: Sequence[str], call: Callable[[Tape, Calls], Steps[None]]
) -> Steps[None]:
    """Tell text and calls in turn; a mark without a call is text."""
    while (start := (yield from tell_until(tape, marks, after_call=calls.n_ended > 0))) is not None:
        if not (yield from attempt(tape, calls, start, call(tape, calls))):
            yield Text(tape.text[start : tape.at + 1])
            tape.at += 1
