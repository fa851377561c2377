"""What `foretoken top` draws: one look at the server, with the seconds before it."""

from __future__ import annotations

from collections import deque
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from foretoken.cli.colouring import style_of

_BARS = " ▁▂▃▄▅▆▇█"
_SECONDS = 60
_WIDTHS = 9
_PLACES = (1, 2, 4, 8)
"""Places of a draft whose acceptance is shown."""


class History:
    """Tokens per second of the last minute."""

    def __init__(self) -> None:
        self.tokens: deque[float] = deque(maxlen=_SECONDS)
        self.steps: deque[float] = deque(maxlen=_SECONDS)

    def add(self, look: dict[str, Any]) -> None:
        rates = look.get("rates")
        if rates:
            self.tokens.append(rates["tokens"])
            self.steps.append(rates["steps"])


def view(history: History, look: dict[str, Any]) -> RenderableType:
    """Everything on one screen."""
    if "totals" not in look:
        return Panel(f"the engine is {look['state']}: {look['reason'] or 'no reason known'}", title=look["model"])
    parts: list[RenderableType] = [_summary(look), _pace(history), _slots(look), _drafters(look), _widths(look)]
    if look["cache"]:
        parts.append(_cache(look))
    return Panel(Group(*parts), title=f"foretoken · {look['model']}", title_align="left")


def _summary(look: dict[str, Any]) -> Text:
    totals = look["totals"]
    busy = sum(slot["busy"] for slot in look["slots"])
    rates = look["rates"] or {"tokens": 0.0, "steps": 0.0, "prompt_tokens": 0.0}
    per_step = rates["tokens"] / rates["steps"] if rates["steps"] else 0.0
    text = Text()
    text.append(f"{rates['tokens']:,.0f} tokens/s", "bold")
    text.append(f"  {rates['prompt_tokens']:,.0f} prompt tokens/s  {per_step:.2f} tokens per step\n")
    text.append(f"{busy} of {len(look['slots'])} slots busy, {look['waiting']} waiting; ")
    text.append(f"accepted {_share(totals.get('accepted', 0), totals.get('drafted', 0))}; ")
    text.append(f"{totals.get('rewinds', 0):,} rewinds in {totals.get('rewind_ms', 0.0):,.0f} ms, ")
    text.append(f"{totals.get('replayed', 0):,} tokens replayed; {look['restarts']} restarts\n")
    return text


def _pace(history: History) -> Text:
    most = max([1.0, *history.tokens])
    text = Text("tokens/s ", "dim")
    text.append(_sparkline(history.tokens, most), "bright_blue")
    text.append(f" {most:,.0f}\n", "dim")
    text.append("steps/s  ", "dim")
    text.append(_sparkline(history.steps, most), "white")
    text.append("\n")
    return text


def _sparkline(values: deque[float], most: float) -> str:
    return "".join(_BARS[round((len(_BARS) - 1) * value / most)] for value in values).ljust(_SECONDS)


def _slots(look: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("slot", "context", "", "tokens"):
        table.add_column(name)
    for slot in look["slots"]:
        state = "reading" if slot["reading"] else "answering" if slot["busy"] else "free"
        bar = ProgressBar(max(1, slot["n_ctx"]), slot["n_tokens"], width=24)
        said = f"{slot['n_cached']:,} of {slot['n_prompt']:,}" if slot["reading"] else f"{slot['n_emitted']:,} said"
        table.add_row(str(slot["id"]), bar, state, said if slot["busy"] else f"{slot['n_cached']:,} remembered")
    return table


def _drafters(look: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\ndrafter", no_wrap=True)
    for name in ("verified", "accepted", "rate", *(f"at {place}" for place in _PLACES), "saved ms", "lost ms"):
        table.add_column(f"\n{name}", justify="right", no_wrap=True)
    for number, (name, one) in enumerate(look["drafters"].items()):
        table.add_row(
            Text(name, style_of(number)), f"{one['verified']:,}", f"{one['accepted']:,}",
            _share(one["accepted"], one["verified"]), *(_at(one, place - 1) for place in _PLACES),
            f"{one['saved_ms']:,.0f}", f"{one['lost_ms']:,.0f}",
        )  # fmt: skip
    return table


def _at(drafter: dict[str, Any], place: int) -> str:
    verified = drafter["verified_at"][place] if place < len(drafter["verified_at"]) else 0
    accepted = drafter["accepted_at"][place] if place < len(drafter["accepted_at"]) else 0
    return _share(accepted, verified)


def _widths(look: dict[str, Any]) -> Table:
    """The widths that took the most time."""
    used = [one for one in look["widths"] if one["steps"]]
    most = sorted(used, key=lambda one: one["steps"] * one["ms"], reverse=True)[:_WIDTHS]
    chosen = sorted(most, key=lambda one: int(one["width"]))
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("\nrows", no_wrap=True)
    for one in chosen:
        table.add_column(f"\n{one['width']}", justify="right", no_wrap=True)
    table.add_row("steps", *(f"{one['steps']:,}" for one in chosen))
    table.add_row("ms", *(_ms(one["ms"]) for one in chosen))
    table.add_row("expected", *(_ms(one["expected_ms"]) for one in chosen))
    return table


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def _cache(look: dict[str, Any]) -> Text:
    facts = (f"{name.replace('_', ' ')} {value:,.0f}" for name, value in look["cache"].items())
    return Text("\nstate tree: " + ", ".join(facts))


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "-"
