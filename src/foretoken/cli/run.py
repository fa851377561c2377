"""`foretoken run`: continue a text, or chat, in the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import typer
from msgspec.structs import replace

from foretoken.chat import ChatTemplate
from foretoken.cli import options
from foretoken.cli.colouring import Painter
from foretoken.cli.engine_options import takes_engine
from foretoken.cli.settings import show_library_log
from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine
from foretoken.errors import ConfigError
from foretoken.speculation.statistics import line
from foretoken.types import Chunk, Constraint, Finish, Request, SamplingParams


@takes_engine()
def run(
    config: EngineConfig,
    prompt: options.Prompt = None,
    chat: options.Chat = False,
    system: options.System = None,
    n_predict: options.NPredict = -1,
    stop: options.Stop = None,
    ignore_eos: options.IgnoreEos = False,
    grammar: options.Grammar = None,
    grammar_file: options.GrammarFile = None,
    json_schema: options.JsonSchema = None,
    json_schema_file: options.JsonSchemaFile = None,
    color: options.Color = False,
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
        constraint=_constraint(grammar, grammar_file, json_schema, json_schema_file),
    )
    with Engine.from_config(config) as engine:
        print(engine.assembly.describe(), file=sys.stderr)
        if prompt is None and not as_json:
            _converse(engine, template, system, color)
        else:
            _answer_once(engine, template, prompt, system, chat, as_json, color)


def _answer_once(
    engine: Engine, template: Request, prompt: str | None, system: str | None, chat: bool, as_json: bool, color: bool
) -> None:
    text = sys.stdin.read() if prompt in (None, "-") else prompt
    request = replace(template, prompt=text or "")
    if chat or system:
        request = _asked(template, _template(engine), [*_system(system), {"role": "user", "content": text or ""}])
    answer, finish = _stream(engine, request, quiet=as_json, color=color)
    if as_json:
        print(json.dumps(_as_json(answer, finish)))
    if finish.reason in ("error", "invalid"):
        raise SystemExit(f"foretoken: {finish.error}")


def _converse(engine: Engine, template: Request, system: str | None, color: bool) -> None:
    """Chat until end of input; /clear starts over."""
    print("Chat with the model: /clear starts over, Ctrl-D ends.", file=sys.stderr)
    chat = _template(engine)
    messages = _system(system)
    for line_ in _input_lines():
        if line_ == "/clear":
            messages = _system(system)
            continue
        messages.append({"role": "user", "content": line_})
        answer, _ = _stream(engine, _asked(template, chat, messages), color=color)
        messages.append({"role": "assistant", "content": answer})


def _asked(template: Request, chat: ChatTemplate, messages: list[dict[str, str]]) -> Request:
    """A conversation as a request; a constraint begins behind what the model thinks first."""
    prompt = chat.render(messages)
    constraint = template.constraint
    if constraint is not None:
        constraint = replace(constraint, thought=chat.thought_before(prompt))
    return replace(template, prompt=prompt, constraint=constraint)


def _constraint(
    grammar: str | None, grammar_file: Path | None, schema: str | None, schema_file: Path | None
) -> Constraint | None:
    given: list[tuple[Literal["gbnf", "json_schema"], str | Path | None]] = [
        ("gbnf", grammar), ("gbnf", grammar_file), ("json_schema", schema), ("json_schema", schema_file)
    ]  # fmt: skip
    found = [(kind, source) for kind, source in given if source is not None]
    if len(found) > 1:
        raise ConfigError("give one grammar or schema")
    for kind, source in found:
        try:
            return Constraint(kind, source if isinstance(source, str) else source.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read {source}: {error}") from None
    return None


def _input_lines() -> Iterator[str]:
    while True:
        try:
            text = input("> " if sys.stdin.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return
        if text.strip():
            yield text.strip()


def _stream(engine: Engine, request: Request, quiet: bool = False, color: bool = False) -> tuple[str, Finish]:
    """Print an answer as it comes, then what it cost; Ctrl-C ends the answer, not the program."""
    parts: list[str] = []
    painter = Painter(engine.vocabulary.end_tokens) if color else None
    finish: Finish | None = None
    events = engine.generate(request)
    try:
        for event in events:
            if isinstance(event, Chunk):
                parts.append(event.text)
                if not quiet:
                    print(painter.paint(event) if painter else event.text, end="", flush=True)
            else:
                finish = event
    except KeyboardInterrupt:
        events.close()
    if finish is None:
        raise typer.Exit(130)
    if not quiet:
        print(flush=True)
        if painter is not None:
            print(painter.legend(), file=sys.stderr)
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
            "usage": msgspec.to_builtins(finish.usage)}  # fmt: skip


def _template(engine: Engine) -> ChatTemplate:
    vocabulary = engine.vocabulary
    names = [vocabulary.piece(t).decode() if t is not None else "" for t in (vocabulary.bos, vocabulary.eos)]
    return ChatTemplate(engine.assembly.model.chat_template, *names)


def _system(text: str | None) -> list[dict[str, str]]:
    return [{"role": "system", "content": text}] if text else []
