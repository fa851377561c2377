"""One table of every kind and one chart from what a run kept."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from foretoken.bench.chart import svg
from foretoken.bench.compare import Drafting, Pace, Result, share_of_limit
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED
from foretoken.bench.statistics import Ratio
from foretoken.speculation.drafters.draft_model import DraftModelDrafter

_WIDTHS = ("1", "2", "3", "4", "6", "8", "9", "12", "16", "24", "32", "48", "64", "96", "128")
Results = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m foretoken.bench.gpu.report", description=__doc__)
    parser.add_argument("results", type=Path, help="what a run wrote (--out)")
    parser.add_argument("--chart", type=Path, help="an SVG of one model's workloads")
    parser.add_argument("--model", help="the chart's model; the largest measured if not said")
    options = parser.parse_args(arguments)
    results: Results = json.loads(options.results.read_text())
    print("\n".join(tables(results)))
    if options.chart:
        model = options.model or max(measured(results), key=lambda name: results[name]["load"]["result"]["bytes"])
        options.chart.write_text(svg(_compared(results[model]), f"{model}: {results['machine']['gpu']}"))


def measured(results: Results) -> list[str]:
    """The models of a run."""
    return [name for name in results if name != "machine"]


def tables(results: Results) -> Iterator[str]:
    """Everything that was measured, as Markdown."""
    models = {name: results[name] for name in measured(results)}
    facts = results["machine"]
    yield f"{facts['date']} · {facts['gpu'] or facts['cpu']} · {facts['library']}"
    yield from _workloads(models)
    yield from _draft_models(models)
    yield from _widths(models)
    yield from _memories(models)
    yield from _loops(models)
    yield from _prediction_layers(models)
    yield from _bits(models)


def _workloads(models: Results) -> Iterator[str]:
    yield from ("", "| model | workload | slots | tokens | plain t/s | spec. t/s | ratio | limit | of limit | others |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, parts in models.items():
        for one in _compared(parts):
            plain, ours, limit = (one.paces[label] for label in (PLAIN, SPECULATED, LIMIT))
            others = ", ".join(
                f"{label.removeprefix('llama-server ')} {pace.ratio.value:.2f}"
                for label, pace in one.paces.items()
                if label not in (PLAIN, SPECULATED, LIMIT)
            )
            yield (
                f"| {name} | {one.workload} | {one.n_slots} | {one.n_tokens} | {plain.tokens_per_second:.1f} "
                f"| {ours.tokens_per_second:.1f} | {ours.ratio.value:.2f} | {limit.ratio.value:.2f} "
                f"| {share_of_limit(one):.0%} | {others} |"
            )


def _draft_models(models: Results) -> Iterator[str]:
    """With a draft model, beside the same without it where that was measured."""
    titles = "model | draft | workload | slots | tokens | plain t/s | ratio | without | limit | asks | ms each"
    yield from ("", f"| {titles} | verified | right |", f"|{'---|' * 13}")
    for name, parts in models.items():
        for part, kept in parts.items():
            setup, drafted, draft = part.partition("+")
            if not drafted or "paces" not in kept.get("result", ()):
                continue
            one = _result(kept["result"])
            bare = parts.get(setup, {}).get("result")
            without = f"{_result(bare).paces[SPECULATED].ratio.value:.2f}" if bare else ""
            did = one.drafters[DraftModelDrafter.name]
            yield (
                f"| {name} | {draft} | {one.workload} | {one.n_slots} | {one.n_tokens} "
                f"| {one.paces[PLAIN].tokens_per_second:.1f} | {one.paces[SPECULATED].ratio.value:.2f} "
                f"| {without} | {one.paces[LIMIT].ratio.value:.2f} "
                f"| {did.asks} | {did.ms / max(1, did.asks):.2f} | {did.verified} | {did.accepted} |"
            )


def _widths(models: Results) -> Iterator[str]:
    yield from ("", f"| ms by rows | {' | '.join(_WIDTHS)} |", f"|---|{'---|' * len(_WIDTHS)}")
    for name, parts in models.items():
        for part, kinds in _measured(parts, "widths"):
            for kind, table in kinds.items():
                yield f"| {name}, {part.split()[1]}, {kind} | {' | '.join(f'{table[w]:.2f}' for w in _WIDTHS)} |"


def _memories(models: Results) -> Iterator[str]:
    yield from ("", "| model | memory | protect µs | rewind µs | steps of accepted drafts, ms by widths |")
    yield "|---|---|---|---|---|"
    for name, parts in models.items():
        for _, kinds in _measured(parts, "memories"):
            streams = dict(_measured(parts, "streams")).get("streams", {})
            for kind, costs in kinds.items():
                if "refused" not in costs:
                    steps = ", ".join(f"{pattern}: {ms:.1f}" for pattern, ms in streams.get(kind, {}).items())
                    yield f"| {name} | {kind} | {costs['protect_us']:.0f} | {costs['rewind_us']:.0f} | {steps} |"


def _loops(models: Results) -> Iterator[str]:
    yield from ("", "| model | bare decode ms | loop ms | above |", "|---|---|---|---|")
    for name, parts in models.items():
        for _, costs in _measured(parts, "loop"):
            bare, loop = costs["bare_ms"], costs["loop_ms"]
            yield f"| {name} | {bare:.3f} | {loop:.3f} | {loop / bare - 1:+.1%} |"


def _prediction_layers(models: Results) -> Iterator[str]:
    shares = (0.6, 0.7, 0.8, 0.9)
    titles = "model | plain ms | beside the layer | drafts of | draft ms | step ms | times plain if so many are right"
    yield from ("", f"| {titles} |", "|---|---|---|---|---|---|---|")
    for name, parts in models.items():
        for _, costs in _measured(parts, "mtp"):
            plain = costs["plain_ms"]
            for n, one in costs["drafts"].items():
                ms = one["step_ms"] + one["draft_ms"]
                gains = (f"{p:.0%}: {plain * sum(p**i for i in range(int(n) + 1)) / ms:.2f}" for p in shares)
                yield (
                    f"| {name} | {plain:.2f} | {costs['beside_ms']:.2f} | {n} | {one['draft_ms']:.2f} "
                    f"| {one['step_ms']:.2f} | {', '.join(gains)} |"
                )


def _bits(models: Results) -> Iterator[str]:
    yield from ("", "| model | KV | rows: other bits / other best token, of so many |", "|---|---|---|")
    for name, parts in models.items():
        for _, kinds in _measured(parts, "bits"):
            for kv, sizes in kinds.items():
                cells = (f"{width}: {x['other_bits']}/{x['other_token']}" for width, x in sizes.items())
                yield f"| {name} | {kv} | {', '.join(cells)} of {next(iter(sizes.values()))['rows']} |"


def _measured(parts: Results, start: str) -> Iterator[tuple[str, Any]]:
    for part, kept in parts.items():
        if part.startswith(start) and "result" in kept:
            yield part, kept["result"]


def _compared(parts: Results) -> list[Result]:
    """What was compared without a draft model."""
    found = [kept["result"] for part, kept in parts.items() if "+" not in part and isinstance(kept.get("result"), dict)]
    return [_result(one) for one in found if "paces" in one]


def _result(kept: Results) -> Result:
    paces = {
        label: Pace(pace["tokens_per_second"], Ratio(**pace["ratio"]), pace["n_identical"])
        for label, pace in kept["paces"].items()
    }
    drafters = {name: Drafting(**did) for name, did in kept.get("drafters", {}).items()}
    return Result(**{**kept, "paces": paces, "drafters": drafters})


if __name__ == "__main__":
    main()
