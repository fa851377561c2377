"""The whole run, one part after the other: what is done is kept, so that a run can be cut off and taken up again."""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import Process
from pathlib import Path
from typing import Any

from msgspec.structs import replace as change

from foretoken import machine
from foretoken.bench import shapes
from foretoken.bench.compare import Recording, compare, record, recorded_answers
from foretoken.bench.contestants import Alone, Contestant, OracleContestant, ours
from foretoken.bench.gpu import costs, recordings, server
from foretoken.bench.gpu.recorded_draft import guessed_answers, guessing
from foretoken.bench.gpu.scripted import scripted
from foretoken.bench.oracle import Limit
from foretoken.bench.workloads import load as load_workload
from foretoken.config import EngineConfig, ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.errors import ForetokenError
from foretoken.llama.model import Model
from foretoken.models import DEFAULT, path_of

_BITS = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24, 32, 33, 48, 64)
_SHORT, _LONG = 1024, 16384
EMBEDDED = "embedded"


class Keeper:
    """Results by model and part, written down after each part; parts that are there are not measured again."""

    def __init__(self, path: Path, deadline: float) -> None:
        self.path = path
        self.deadline = deadline
        self.results: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"machine": _facts()}

    def part(self, model: str, name: str, measure: Callable[[], Any], seconds: float = 5.0) -> None:
        """Measure a part that is expected to take so long, if it is missing and there is time for it."""
        done = self.results.setdefault(model, {})
        if name in done and "error" not in done[name]:
            return
        if time.monotonic() + seconds > self.deadline:
            print(f"{model} {name}: no time left", flush=True)
            return
        started = time.monotonic()
        try:
            done[name] = {"result": measure(), "seconds": round(time.monotonic() - started, 1)}
        except ForetokenError as error:
            done[name] = {"error": str(error)}
        print(f"{model} {name}: {json.dumps(done[name])[:300]}", flush=True)
        self.path.write_text(json.dumps(self.results, indent=1))

    def missing(self, model: str, names: Sequence[str]) -> bool:
        return any(name not in self.results.get(model, {}) for name in names)


@dataclass(frozen=True, slots=True)
class _Setup:
    """An engine and what it is asked; a draft model is for workloads of which guesses were recorded."""

    n_slots: int
    draft: str | None
    workloads: Sequence[str]

    def part(self, name: str) -> str:
        """What a part that is measured with this is called."""
        return f"{name}/{self.n_slots}+{self.draft}" if self.draft else f"{name}/{self.n_slots}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options().parse_args(arguments)
    logging.basicConfig(level=logging.ERROR)
    keeper = Keeper(options.out, time.monotonic() + options.seconds)
    names = options.models.split(",")
    drafts = [options.draft] if options.draft else []
    written = dict.fromkeys([*drafts, *(name for name in names if name != EMBEDDED)])
    with _writing(list(written), options) as writers:
        if options.draft:
            _written(_path(options.draft, options), writers[options.draft])
        for name in names:
            path = options.embedded if name == EMBEDDED else _written(_path(name, options), writers[name])
            measure(keeper, name, path, options)


@contextmanager
def _writing(names: Sequence[str], options: argparse.Namespace) -> Iterator[dict[str, Process]]:
    """The models of later turns are written while earlier ones are measured."""
    writers = {
        name: Process(target=shapes.write, args=(_path(name, options), name, options.vocabulary)) for name in names
    }
    for writer in writers.values():
        writer.start()
    try:
        yield writers
    finally:
        for writer in writers.values():
            writer.join()


def _path(name: str, options: argparse.Namespace) -> Path:
    path: Path = options.folder / f"{name}.gguf"
    return path


def measure(keeper: Keeper, name: str, path: Path, options: argparse.Namespace) -> None:
    """All parts for one model: a shape, or the embedded model, which says what it likes."""
    source = ModelConfig(path, load_mtp="mtp" in options.parts)
    config = EngineConfig(source, n_ctx=options.context, n_threads=4, memory=options.memory)
    started = time.monotonic()
    with Model(config.model) as model:
        loaded = time.monotonic() - started
        keeper.part(name, "load", lambda: {"seconds": loaded, "bytes": model.n_bytes, "gpu_mib": _gpu_memory()})
        if "costs" in options.parts:
            _costs(keeper, name, model, config, options)
        if "mtp" in options.parts:
            keeper.part(name, "mtp", lambda: costs.mtp(model, min(_SHORT, options.longest)), 10)
        for setup in _setups(name, options):
            if keeper.missing(name, [setup.part(workload) for workload in setup.workloads]):
                drafting = ModelConfig(_path(setup.draft, options)) if setup.draft else None
                speculation = SpeculationConfig(draft_model=drafting)
                wanted = replace(config, n_parallel=setup.n_slots, speculation=speculation)
                try:
                    with Engine.from_config(wanted, borrowed=model) as engine:
                        _workloads(keeper, name, engine, setup, options)
                except ForetokenError as error:
                    print(f"{setup.part(name)}: {error}", flush=True)
        if "costs" in options.parts and options.longest >= _LONG:
            keeper.part(name, "widths 16k", lambda: costs.widths(model, _LONG), 20)
        if "bits" in options.parts:
            keeper.part(name, "bits", lambda: _bits(model), 20)
        if "exact" in options.parts:
            keeper.part(name, "exact", lambda: _exact(model, config), 20)


def _setups(name: str, options: argparse.Namespace) -> Iterator[_Setup]:
    guessed = {said.workload for said in recordings.load() if said.guesses}
    for n_slots, names in ((1, options.workloads), (4, options.four)):
        chosen = names.split(",") if names else []
        yield _Setup(n_slots, None, chosen)
        if options.draft and name not in (EMBEDDED, options.draft):
            yield _Setup(n_slots, options.draft, [workload for workload in chosen if workload in guessed])


def _costs(keeper: Keeper, name: str, model: Model, config: EngineConfig, options: argparse.Namespace) -> None:
    n_past = min(_SHORT, options.longest)
    keeper.part(name, "widths 1k", lambda: costs.widths(model, n_past), 20)
    keeper.part(name, "memories", lambda: costs.memories(model, n_past), 15)
    keeper.part(name, "streams", lambda: costs.streams(model, n_past), 15)
    keeper.part(name, "loop", lambda: costs.loop(model, config, 200), 10)


def _bits(model: Model) -> dict[str, Any]:
    said = recordings.load()[0]
    tokens = model.vocabulary.tokenize(said.prompt + said.answer)[:192]
    return {kv: costs.bits(model, tokens, _BITS, kv) for kv in ("f16", "q8_0")}


def _exact(model: Model, config: EngineConfig) -> dict[str, Any]:
    """What `--exact` chooses here, and what a step costs with it."""
    with Engine.from_config(replace(config, exact=True), borrowed=model) as engine:
        return {"settings": engine.assembly.describe(), "widths_ms": Limit(engine).widths_ms}


def _workloads(keeper: Keeper, name: str, engine: Engine, setup: _Setup, options: argparse.Namespace) -> None:
    """Plain, speculated, the oracle and llama-server, answer by answer side by side."""
    n_slots = setup.n_slots
    with ExitStack() as stack:
        texts = _texts(engine, name, setup.workloads, max(options.requests, n_slots), options)
        scripts = {
            case.sampling.seed: answer
            for one in texts
            for case, answer in zip(one.cases, one.answers, strict=True)
            if case.sampling.seed is not None
        }
        others: list[Contestant] = []
        path = None
        if name != EMBEDDED:
            stack.enter_context(scripted(engine, scripts))
            path = options.out.with_name(f"{name}.scripts")
            server.write_scripts(path, scripts)
        if setup.draft:
            stack.enter_context(guessing(engine, guessed_answers(engine, recordings.load(), texts)))
        if options.server and n_slots == 1 and not setup.draft:
            started = time.monotonic()
            model_path = engine.assembly.model.path
            drafters = options.drafters.split(",")
            others += stack.enter_context(server.running(options.server, model_path, options.context, path, drafters))
            print(f"{len(others)} servers after {time.monotonic() - started:.1f} s", flush=True)
        keeper.part(
            name, setup.part("engine"), lambda: {"settings": engine.assembly.describe(), "gpu_mib": _gpu_memory()}
        )
        limit = Limit(engine)
        keeper.part(name, setup.part("oracle"), lambda: limit.widths_ms)
        oracle = OracleContestant(engine, limit, recorded_answers(texts))
        contestants: list[Contestant] = [*ours(engine), oracle, *others]
        turns = [Alone(contestant) for contestant in contestants]
        for text in texts:
            part = setup.part(text.workload.name)
            if not text.cases or not keeper.missing(name, [part]):
                continue

            def compared(text: Recording = text) -> dict[str, Any]:
                return asdict(compare(engine, text, n_slots, options.rounds, turns, lambda step: None))

            keeper.part(name, part, compared, options.part_seconds)


def _texts(
    engine: Engine, name: str, chosen: Sequence[str], n_requests: int, options: argparse.Namespace
) -> list[Recording]:
    """What will be said: recordings in this vocabulary, or what the embedded model itself says."""
    if name == EMBEDDED:
        work = [replace(load_workload(one), temperature=0.0) for one in chosen]
        played = [record(engine, one, options.n_predict, lambda step: None) for one in work]
        return [_first(one, n_requests) for one in played]
    said = recordings.load()
    texts = [recordings.tokenised(engine, said, one, options.n_predict) for one in chosen]
    return [_first(_sampled(text, options.temperature, options.presence_penalty), n_requests) for text in texts]


def _sampled(recording: Recording, temperature: float, penalty: float) -> Recording:
    """The same answers, of which each token is chosen with these settings before the recorded one is said."""
    cases = tuple(
        replace(case, sampling=change(case.sampling, temperature=temperature, presence_penalty=penalty))
        for case in recording.cases
    )
    return replace(recording, cases=cases)


def _first(recording: Recording, n: int) -> Recording:
    return replace(recording, cases=recording.cases[:n], answers=recording.answers[:n])


def _written(path: Path, writer: Process) -> Path:
    """Wait for a model that another process is writing."""
    while not path.exists():
        writer.join(0.2)
        if writer.exitcode:
            raise ForetokenError(f"{path} could not be written: see above")
    return path


def _facts() -> dict[str, Any]:
    query = "name,driver_version,memory.total,clocks.max.sm"
    return {**machine.describe(), "gpu": _smi(query), "load": machine.load()}


def _gpu_memory() -> int | None:
    used = _smi("memory.used")
    return int(used.split()[0]) if used else None


def _smi(query: str) -> str | None:
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m foretoken.bench.gpu", description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("gpu.json"), help="results; what is in it is not measured again"
    )
    parser.add_argument(
        "--models",
        default=f"qwen3.5-0.8b,qwen3.5-27b,{EMBEDDED}",
        help=f"{', '.join(shapes.SHAPES)}, {EMBEDDED}, toy-...",
    )
    parser.add_argument(
        "--draft", help="a shape that drafts for the others, where a real draft model's guesses were recorded"
    )
    parser.add_argument("--folder", type=Path, default=Path("."), help="where the models are written")
    parser.add_argument("--vocabulary", type=Path, help="ggml-vocab-qwen35.gguf of llama.cpp's sources")
    parser.add_argument("--embedded", type=Path, default=path_of(DEFAULT), help="the embedded model's file")
    parser.add_argument("--server", type=Path, help="llama-server of the same build, patched to follow recordings")
    parser.add_argument("--drafters", default=",".join(server.DRAFTERS), help="its settings of --spec-type")
    parser.add_argument("--workloads", default=",".join(recordings.WORKLOADS))
    parser.add_argument("--four", default="code-edit", help="workloads for four slots")
    parser.add_argument("--memory", default="auto", help="how the engine takes tokens back")
    parser.add_argument("--parts", default="costs,mtp,bits,exact", help="what to measure beside the workloads")
    parser.add_argument("--requests", type=int, default=4, help="of each workload")
    parser.add_argument("--n-predict", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--temperature", type=float, default=0.0, help="what choosing a token costs depends on it")
    parser.add_argument("--presence-penalty", type=float, default=0.0, help="likewise")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--longest", type=int, default=16384, help="context of t(width) at most")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no part that would end later")
    parser.add_argument("--part-seconds", type=float, default=30.0, help="what a workload is expected to take")
    return parser
