"""`foretoken run`: continue a text, or chat, in the terminal."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from typing import Any

import typer

from foretoken.chat import ChatTemplate
from foretoken.cli import options
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine
from foretoken.speculation.statistics import line
from foretoken.types import Chunk, Finish, Request, SamplingParams


@takes_engine()
def run(
    config: EngineConfig,
    prompt: options.Prompt = None,
    chat: options.Chat = False,
    system: options.System = None,
    n_predict: options.NPredict = -1,
    stop: options.Stop = None,
    ignore_eos: options.IgnoreEos = False,
    as_json: options.Json = False,
    verbose: options.Verbose = False,
    temperature: options.Temperature = 0.8,
    top_k: options.TopK = 40,
    top_p: options.TopP = 0.95,
    min_p: options.MinP = 0.05,
    repeat_penalty: options.RepeatPenalty = 1.0,
    seed: options.Seed = None,
) -> None:
    """Continue a text (-p), or chat with the model.

    The answer streams to standard output; a timing line follows on standard error.
    """
    show_library_log(verbose)
    sampling = SamplingParams(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_penalty=repeat_penalty,
        seed=seed,
    )
    template = Request(
        "",
        sampling,
        max_tokens=None if n_predict < 0 else n_predict,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
    )
    with Engine.from_config(config) as engine:
        print(engine.assembly.describe(), file=sys.stderr)
        if prompt is None and not as_json:
            _converse(engine, template, system)
        else:
            _answer_once(engine, template, prompt, system, chat, as_json)


def _answer_once(
    engine: Engine, template: Request, prompt: str | None, system: str | None, chat: bool, as_json: bool
) -> None:
    text = sys.stdin.read() if prompt in (None, "-") else prompt
    if chat or system:
        text = _template(engine).render([*_system(system), {"role": "user", "content": text}])
    request = dataclasses.replace(template, prompt=text or "")
    answer, finish = _stream(engine, request, quiet=as_json)
    if as_json:
        print(json.dumps(_as_json(answer, finish)))
    if finish.reason == "error":
        raise SystemExit(f"foretoken: {finish.error}")


def _converse(engine: Engine, template: Request, system: str | None) -> None:
    """Chat until end of input; /clear starts over."""
    print("Chat with the model: /clear starts over, Ctrl-D ends.", file=sys.stderr)
    chat = _template(engine)
    messages = _system(system)
    for line_ in _input_lines():
        if line_ == "/clear":
            messages = _system(system)
            continue
        messages.append({"role": "user", "content": line_})
        answer, _ = _stream(engine, dataclasses.replace(template, prompt=chat.render(messages)))
        messages.append({"role": "assistant", "content": answer})


def _input_lines() -> Iterator[str]:
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        if text.strip():
            yield text.strip()


def _stream(engine: Engine, request: Request, quiet: bool = False) -> tuple[str, Finish]:
    """Print an answer as it comes, then what it cost; Ctrl-C ends the answer, not the program."""
    parts: list[str] = []
    finish: Finish | None = None
    events = engine.generate(request)
    try:
        for event in events:
            if isinstance(event, Chunk):
                parts.append(event.text)
                if not quiet:
                    print(event.text, end="", flush=True)
            else:
                finish = event
    except KeyboardInterrupt:
        events.close()
    if finish is None:
        raise typer.Exit(130)
    if not quiet:
        print(flush=True)
    for text in timing_lines(finish):
        print(text, file=sys.stderr)
    return "".join(parts), finish


def timing_lines(finish: Finish) -> list[str]:
    """What an answer cost, in llama.cpp's style."""
    usage = finish.usage
    n_read = usage.prompt_tokens - usage.cached_tokens
    lines = [
        f"prompt eval time = {_pace(usage.prompt_ms, n_read)}",
        f"       eval time = {_pace(usage.generation_ms, usage.completion_tokens)}",
    ]
    if usage.drafted:
        lines.append(
            f"draft acceptance rate = {usage.accepted / usage.drafted:.5f} ({usage.accepted} accepted / "
            f"{usage.drafted} drafted), {usage.replayed} replayed, {usage.rewinds} rewinds in {usage.rewind_ms:.2f} ms"
        )
    lines += [line(name, drafter) for name, drafter in usage.drafters.items() if drafter.draft_calls]
    return lines


def _pace(ms: float, n: int) -> str:
    per_token, per_second = (ms / n, n / ms * 1e3) if n and ms else (0.0, 0.0)
    return f"{ms:10.2f} ms / {n:5d} tokens ({per_token:8.2f} ms per token, {per_second:8.2f} tokens per second)"


def _as_json(answer: str, finish: Finish) -> dict[str, Any]:
    return {"text": answer, "finish_reason": finish.reason, "stop": finish.stop, "error": finish.error,
            "usage": dataclasses.asdict(finish.usage)}  # fmt: skip


def _template(engine: Engine) -> ChatTemplate:
    vocabulary = engine.vocabulary
    names = [vocabulary.piece(t).decode() if t is not None else "" for t in (vocabulary.bos, vocabulary.eos)]
    return ChatTemplate(engine.assembly.model.chat_template, *names)


def _system(text: str | None) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}] if text else []
