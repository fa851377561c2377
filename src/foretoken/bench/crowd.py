"""More conversations than fit: they take turns in a few slots, with all the memory they want and with a quarter."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from foretoken.config import EngineConfig
from foretoken.engine.engine import Engine
from foretoken.types import Chunk, Finish, Request, SamplingParams, Token, Usage

N_TURNS = 4
_PLENTY = 1 << 40
_NEARLY = 0.9
_GREEDY = SamplingParams(temperature=0)
_QUESTIONS = ("What happened first?", "Who else was there?", "And what came of it?", "Say it in one sentence.")


@dataclass(frozen=True, slots=True)
class Run:
    """All conversations once, under one budget."""

    budget: int
    most_bytes: int
    """Held at most, by the engine's own count."""
    more_rss: int
    """What the process had at most beyond what it has with nothing kept, as the system counts it."""
    n_answers: int
    n_same: int
    """Answers that are those of an engine that keeps nothing."""
    n_prompt: int
    n_reused: int
    n_again: int
    """Prompt tokens computed although an earlier turn of the conversation had them."""
    n_returns: int
    """Turns after the first."""
    n_found: int
    """Of these, the ones for which nearly all of the earlier turns was still there."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """The same conversations with plenty of memory and with a quarter of what they then took."""

    n_conversations: int
    n_slots: int
    n_turns: int
    roomy: Run
    tight: Run


@dataclass(slots=True)
class _Talk:
    tokens: list[Token]
    answers: list[list[Token]] = field(default_factory=list)
    usages: list[Usage] = field(default_factory=list)
    n_known: list[int] = field(default_factory=list)
    """What an earlier turn had of each prompt."""


def n_steps(n_conversations: int) -> int:
    return 3 * n_conversations * N_TURNS


def measure(config: EngineConfig, n_conversations: int, n_predict: int, say: Callable[[str], None]) -> Crowd:
    """With room for everything first: that tells what everything is."""
    talk = partial(_converse, n_conversations=n_conversations, n_predict=n_predict)
    with _engine(config, _PLENTY) as engine:
        plain = talk(engine, keep=False, watch=lambda: say("nothing kept"))
        roomy = _run(engine, talk, plain, lambda: say("no limit"))
    with _engine(config, roomy.most_bytes // 4) as engine:
        # Others first: what the slots and the library need is there before the process is looked at.
        _converse(engine, config.n_parallel, n_predict, keep=True, watch=lambda: None, first=n_conversations)
        tight = _run(engine, talk, plain, lambda: say("a quarter"))
    return Crowd(n_conversations, config.n_parallel, N_TURNS, roomy, tight)


def _engine(config: EngineConfig, budget: int) -> Engine:
    return Engine.from_config(replace(config, cache=replace(config.cache, n_host_bytes=budget)))


def _run(engine: Engine, talk: Callable[..., list[_Talk]], plain: list[_Talk], say: Callable[[], None]) -> Run:
    """All conversations once, compared with those of an engine that kept nothing."""
    before = _memory("VmRSS") - engine.call(lambda loop: loop.cache.n_bytes)
    _forget_peak()
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, int(engine.call(lambda loop: loop.cache.n_bytes)))
        say()

    talks = talk(engine, keep=True, watch=watch)
    more_rss = _memory("VmHWM") - before
    usages = [usage for talk in talks for usage in talk.usages]
    returns = [
        (n, usage.cached_tokens) for talk in talks for n, usage in zip(talk.n_known, talk.usages, strict=True) if n > 0
    ]
    pairs = [
        (mine, theirs)
        for one, other in zip(talks, plain, strict=True)
        for mine, theirs in zip(one.answers, other.answers, strict=True)
    ]
    return Run(
        budget=engine.call(lambda loop: loop.cache.host.budget),
        most_bytes=most,
        more_rss=more_rss,
        n_answers=len(pairs),
        n_same=sum(mine == theirs for mine, theirs in pairs),
        n_prompt=sum(usage.prompt_tokens for usage in usages),
        n_reused=sum(usage.cached_tokens for usage in usages),
        n_again=sum(max(0, n - cached) for n, cached in returns),
        n_returns=len(returns),
        n_found=sum(cached >= _NEARLY * n for n, cached in returns),
    )


def _converse(
    engine: Engine, n_conversations: int, n_predict: int, keep: bool, watch: Callable[[], None], first: int = 0
) -> list[_Talk]:
    """Every conversation's first turn, then every one's second, and so on; as many at once as there are slots."""
    text = files("foretoken.bench").joinpath("workloads/files/inventory.py.txt").read_text(encoding="utf-8")
    numbers = range(first, first + n_conversations)
    talks = [_Talk(engine.tokenize(f"Conversation {n}.\n{text[n * 50 :]}\n")) for n in numbers]
    with ThreadPoolExecutor(engine.assembly.context.n_sequences) as several:
        for question in _QUESTIONS[:N_TURNS]:
            asked = engine.vocabulary.tokenize(f"\n{question}\n", add_special=False)
            turn = partial(_turn, engine, asked, n_predict, keep)
            for _ in several.map(turn, talks):
                watch()
    return talks


def _turn(engine: Engine, question: list[Token], n_predict: int, keep: bool, talk: _Talk) -> None:
    talk.n_known.append(len(talk.tokens) - 1 if talk.answers else 0)
    talk.tokens += question
    request = Request(list(talk.tokens), _GREEDY, max_tokens=n_predict, ignore_eos=True, cache_prompt=keep)
    answer: list[Token] = []
    for event in engine.generate(request):
        if isinstance(event, Chunk):
            answer += [info.id for info in event.tokens]
        elif isinstance(event, Finish):
            talk.usages.append(event.usage)
    talk.answers.append(answer)
    talk.tokens += answer


def _memory(name: str) -> int:
    """Bytes of this process: those it has now (VmRSS), or the most it had (VmHWM)."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{name}:"))


def _forget_peak() -> None:
    """Let VmHWM begin anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
