"""A chart of what each turn made a server compute, as SVG: bars side by side, the new tokens as a mark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.sax.saxutils import escape

from foretoken.bench.turns import TurnCost

_WIDTH, _HEIGHT = 900, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 64, 40
_COLOURS = ("#2f6f9f", "#c98a2b", "#6a9a4a", "#9a5a8a")


def svg(costs: Mapping[str, Sequence[TurnCost]], title: str) -> str:
    """The chart as one SVG document."""
    turns = list(zip(*costs.values(), strict=True))
    most = max(turn.n_processed for group in turns for turn in group)
    scale = (_HEIGHT - _TOP - _BOTTOM) / most
    step = (_WIDTH - _LEFT - _RIGHT) / len(turns)
    body = [part for number, group in enumerate(turns) for part in _group(group, number, step, scale)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
            'font-family="system-ui, sans-serif" font-size="11">',
            f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
            f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
            *_legend(list(costs)),
            *_scale(most, scale),
            *body,
            "</svg>\n",
        ]
    )


def _group(group: Sequence[TurnCost], number: int, step: float, scale: float) -> Iterator[str]:
    width = step * 0.8 / len(group)
    left = _LEFT + number * step + step * 0.1
    base = _HEIGHT - _BOTTOM
    for i, turn in enumerate(group):
        height = turn.n_processed * scale
        hint = f"{turn.title}: {turn.n_processed} computed, {turn.n_new} new"
        yield (
            f'<rect x="{left + i * width:.1f}" y="{base - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{_COLOURS[i % len(_COLOURS)]}"><title>{escape(hint)}</title></rect>'
        )
    y = base - group[0].n_new * scale
    yield f'<line x1="{left:.1f}" x2="{left + step * 0.8:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#000000"/>'
    yield f'<text x="{left + step * 0.4:.1f}" y="{base + 16}" text-anchor="middle">{number + 1}</text>'


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = 12
    for i, name in enumerate([*names, "new tokens"]):
        new = i == len(names)
        shape = (
            f'<line x1="{x}" x2="{x + 12}" y1="40" y2="40" stroke="#000000"/>'
            if new
            else f'<rect x="{x}" y="34" width="12" height="12" fill="{_COLOURS[i % len(_COLOURS)]}"/>'
        )
        yield f'{shape}<text x="{x + 18}" y="44">{escape(name)}</text>'
        x += 40 + 7 * len(name)


def _scale(most: int, scale: float) -> Iterator[str]:
    every = next(n for n in (10, 50, 100, 500, 1000, 5000, 10000, 50000, 10**9) if most / n <= 6)
    for value in range(0, most + 1, every):
        y = _HEIGHT - _BOTTOM - value * scale
        yield f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#dddddd"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>'
