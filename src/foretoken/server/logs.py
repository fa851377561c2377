"""Log lines for people or for machines, each with the request it belongs to."""

from __future__ import annotations

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any, TextIO

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
"""The HTTP request that the current task serves."""

_LETTERS = {logging.DEBUG: "D", logging.INFO: "I", logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "E"}


class PlainFormatter(logging.Formatter):
    """One line: time, level, request, message."""

    def format(self, record: logging.LogRecord) -> str:
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        letter = _LETTERS.get(record.levelno, "?")
        name = request_id.get()
        text = f"{clock} {letter} {f'[{name}] ' if name else ''}{record.getMessage()}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


class JsonFormatter(logging.Formatter):
    """One JSON object per line; the fields of a request, which only this asks for, are fields of the object."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": round(record.created, 3),
            "level": record.levelname.lower(),
            "logger": record.name,
            "request_id": request_id.get(),
            "message": record.getMessage(),
            **getattr(record, "fields", dict)(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps({key: value for key, value in line.items() if value is not None}, default=str)


def set_up(as_json: bool, verbose: bool, stream: TextIO | None = None) -> None:
    """Send everything foretoken logs to the standard error, or elsewhere, in one of the two shapes."""
    # No line says which thread or process it is from, so nobody needs to find out.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else PlainFormatter())
    ours = logging.getLogger("foretoken")
    ours.handlers = [handler]
    ours.propagate = False
    ours.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("foretoken.libllama").setLevel(logging.DEBUG if verbose else logging.ERROR)
