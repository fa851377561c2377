"""How well drafters guess the embedded model's answers to held-out dialogues, measured by foretoken."""

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from foretoken.config import ModelConfig, SpeculationConfig
from foretoken.engine.engine import Engine
from foretoken.models import path_of
from foretoken.types import Chunk, Finish, Request, SamplingParams

from chat import Dialogue
from fetch import HERE
from held_out import KINDS, copy_dialogues, edit_dialogues

DRAFTERS = ("copy", "suffix", "ngram-simple", "ngram-map-k", "ngram-mod", "ngram-cache", "draft-model", "mtp")
COLUMNS = (
    "drafter", "drafts", "drafted", "accepted", "of drafted", "per draft", "of all tokens", "tokens per step"
)  # fmt: skip
TOGETHER = ("copy,suffix", "copy,suffix,mtp", "copy,suffix,draft-model")


@dataclass(slots=True)
class Tally:
    """Sums over dialogues."""

    tokens: int = 0
    steps: int = 0
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    texts: list[str] = field(default_factory=list)

    def row(self, label: str) -> str:
        """One line of the table."""
        per_draft = self.accepted / max(self.drafts, 1)
        cells = (
            label,
            f"{self.drafts:,}",
            f"{self.drafted:,}",
            f"{self.accepted:,}",
            f"{self.accepted / max(self.drafted, 1):.1%}",
            f"{per_draft:.2f}",
            f"{self.accepted / max(self.tokens, 1):.1%}",
            f"{self.tokens / max(self.steps, 1):.2f}",
        )
        return f"| {' | '.join(cells)} |"


def chosen_dialogues(corpus: Path, per_kind: int, copies: int) -> dict[str, list[Dialogue]]:
    """The first dialogues of each kind of edit, and copies of 100 lines."""
    drawn = {kind: found[:per_kind] for kind, found in edit_dialogues(corpus, 20).items()}
    return {**drawn, "100-line copies": copy_dialogues(corpus, copies)} if copies else drawn


def engine_with(names: str, model: Path, draft: Path, threads: int) -> Engine:
    """An engine that verifies all that these drafters offer, so that no timing has a say."""
    drafters = tuple(name for name in names.split(",") if name != "draft-model")
    uses_model = "draft-model" in names
    speculation = SpeculationConfig(
        drafters=drafters or ("draft-model",),
        plan="fixed",
        draft_model=ModelConfig(draft) if uses_model else None,
    )
    return Engine.load(model, n_ctx=4096, n_threads=threads, speculation=speculation)


def answers(engine: Engine, dialogues: list[Dialogue], limit: int) -> Iterator[tuple[str, Finish]]:
    """Greedy answers; each dialogue has an owner of its own, so that nothing is learnt from another."""
    for number, dialogue in enumerate(dialogues):
        request = Request(
            dialogue.prompt(),
            SamplingParams(temperature=0),
            max_tokens=limit,
            owner=str(number),
            cache_prompt=False,
        )
        events = list(engine.generate(request))
        text = "".join(event.text for event in events if isinstance(event, Chunk))
        finish = events[-1]
        assert isinstance(finish, Finish)
        yield text, finish


def measure(engine: Engine, sets: dict[str, list[Dialogue]], limit: int) -> dict[str, Tally]:
    """One tally for each kind."""
    tallies: dict[str, Tally] = {}
    for kind, dialogues in sets.items():
        tally = tallies[kind] = Tally()
        for text, finish in answers(engine, dialogues, limit):
            usage = finish.usage
            tally.texts.append(text)
            tally.tokens += usage.completion_tokens
            tally.steps += usage.steps
            tally.drafted += usage.drafted
            tally.accepted += usage.accepted
            tally.drafts += sum(drafter.drafts_verified for drafter in usage.drafters.values())
    return tallies


def total(tallies: list[Tally]) -> Tally:
    """The sum of several tallies."""
    sums: Counter[str] = Counter()
    for tally in tallies:
        for name in ("tokens", "steps", "drafts", "drafted", "accepted"):
            sums[name] += getattr(tally, name)
    return Tally(**sums, texts=[text for tally in tallies for text in tally.texts])


def main() -> None:
    """Print the table for all dialogues, and what share of each kind's tokens every drafter guessed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, default=path_of("mini"))
    parser.add_argument("--draft", type=Path, default=path_of("nano"))
    parser.add_argument("--corpus", type=Path, default=HERE / "work" / "corpus")
    parser.add_argument(
        "--drafters", nargs="*", default=[*DRAFTERS, *TOGETHER], help="names, or several with commas"
    )
    parser.add_argument("--per-kind", type=int, default=20)
    parser.add_argument("--copies", type=int, default=0, help="100-line copies beside them")
    parser.add_argument("--limit", type=int, default=1800)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    sets = chosen_dialogues(args.corpus, args.per_kind, args.copies)
    edits = sum(len(sets[kind]) for kind in KINDS)
    print(f"{edits} held-out edits and {sum(map(len, sets.values())) - edits} other dialogues\n")
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    rows: dict[str, dict[str, Tally]] = {}
    for names in args.drafters:
        with engine_with(names, args.model, args.draft, args.threads) as engine:
            rows[names] = measure(engine, sets, args.limit)
        print(total(list(rows[names].values())).row(names.replace(",", " + ")), flush=True)
    first, *others = (total(list(found.values())).texts for found in rows.values())
    same = sum(texts == first for texts in others)
    print(f"\nThe same {len(first)} answers with {same + 1} of {len(rows)} settings.\n")
    print(f"| share of tokens guessed | {' | '.join(name.replace(',', ' + ') for name in rows)} |")
    print(f"|---|{'---|' * len(rows)}")
    for kind in sets:
        found = [tallies[kind] for tallies in rows.values()]
        shares = " | ".join(f"{tally.accepted / max(tally.tokens, 1):.0%}" for tally in found)
        print(f"| {kind} ({found[0].tokens:,} tokens) | {shares} |")


if __name__ == "__main__":
    main()
