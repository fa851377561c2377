"""The items of one response, growing: every change is an event of the stream."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from foretoken.server.reading import CallArguments, CallBroken, CallEnded, CallStarted, Delta, Text, Thought

_PARTS = {"message": "output_text", "reasoning": "reasoning_text"}


class Output:
    """Thoughts, text and calls become items, one after the other."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._n_begun = 0
        self._open: dict[str, Any] | None = None

    def write(self, delta: Delta, logprobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The events of something new; `logprobs` belong to its text."""
        match delta:
            case Text(text):
                yield from self._continue("message")
                yield from self._say(text, logprobs)
            case Thought(text):
                yield from self._continue("reasoning")
                yield from self._say(text, [])
            case CallStarted(_, call_id, name):
                item = _item("fc", "function_call") | {"call_id": call_id, "name": name, "arguments": ""}
                yield from self._begin(item)
            case CallArguments(_, text):
                self._current["arguments"] += text
                yield self._event("function_call_arguments.delta", delta=text)
            case CallEnded():
                yield from self.close()
            case CallBroken(_, text):
                yield from self._retract()
                yield from self.write(Text(text), logprobs)

    def _retract(self) -> Iterator[dict[str, Any]]:
        """A call that was none: what the stream has said of it ends there, and it is not part of the response."""
        broken = self._current
        yield from self.close("incomplete")
        self.items.remove(broken)

    def close(self, status: str = "completed") -> Iterator[dict[str, Any]]:
        """The events that end the item being written."""
        item = self._open
        if item is None:
            return
        item["status"] = status
        if item["type"] == "function_call":
            yield self._event("function_call_arguments.done", name=item["name"], arguments=item["arguments"])
        else:
            part = item["content"][0]
            done = {"text": part["text"]} | ({"logprobs": part["logprobs"]} if "logprobs" in part else {})
            yield self._event(f"{part['type']}.done", content_index=0, **done)
            yield self._event("content_part.done", content_index=0, part=dict(part))
        self._open = None
        yield {"type": "response.output_item.done", "output_index": self._n_begun - 1, "item": dict(item)}

    @property
    def _current(self) -> dict[str, Any]:
        assert self._open is not None, "arguments before their call"
        return self._open

    def _continue(self, kind: str) -> Iterator[dict[str, Any]]:
        if self._open is not None and self._open["type"] == kind:
            return
        item = _item("msg", kind) | {"role": "assistant"} if kind == "message" else _item("rs", kind) | {"summary": []}
        part: dict[str, Any] = {"type": _PARTS[kind], "text": ""}
        if kind == "message":
            part |= {"annotations": [], "logprobs": []}
        yield from self._begin({**item, "content": []})
        yield self._event("content_part.added", content_index=0, part=dict(part))
        self._current["content"] = [part]

    def _begin(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield from self.close()
        self._open = item
        self.items.append(item)
        self._n_begun += 1
        yield {"type": "response.output_item.added", "output_index": self._n_begun - 1, "item": dict(item)}

    def _say(self, text: str, logprobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        part = self._current["content"][0]
        part["text"] += text
        fields: dict[str, Any] = {"content_index": 0, "delta": text}
        if "logprobs" in part:
            part["logprobs"] += logprobs
            fields["logprobs"] = logprobs
        yield self._event(f"{part['type']}.delta", **fields)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self._current["id"], "output_index": self._n_begun - 1}
        return {"type": f"response.{kind}", **place, **fields}


def _item(prefix: str, kind: str) -> dict[str, Any]:
    return {"id": f"{prefix}_{secrets.token_hex(12)}", "type": kind, "status": "in_progress"}
