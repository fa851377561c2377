"""A chart of what was measured, as SVG: a bar per workload, its interval, and the limit as a mark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from foretoken.bench.compare import Pace, Result
from foretoken.bench.contestants import LIMIT, PLAIN, SPECULATED

_WIDTH = 900
_LEFT = 230
_RIGHT = 70
_BAR = 18
_GAP = 14
_TOP = 64
_COLOURS = ("#2f6f9f", "#c98a2b", "#6a9a4a", "#9a5a8a", "#777777")


def svg(results: Sequence[Result], title: str) -> str:
    """The chart as one SVG document."""
    scale = (_WIDTH - _LEFT - _RIGHT) / max([1.0, *(_reach(result) for result in results)])
    body: list[str] = []
    y = _TOP
    for result in results:
        body += _group(result, y, scale)
        y += _height(result)
    height = y + 10
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
            'font-family="system-ui, sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(12, 22, title, size=15, weight="bold"),
            *_legend(results),
            *_grid(scale, height),
            *body,
            "</svg>\n",
        ]
    )


def _bars(result: Result) -> list[tuple[str, Pace]]:
    return [(label, pace) for label, pace in result.paces.items() if label not in (PLAIN, LIMIT)]


def _height(result: Result) -> int:
    return _BAR * len(_bars(result)) + _GAP


def _reach(result: Result) -> float:
    return max(pace.ratio.high or pace.ratio.value for pace in result.paces.values())


def _group(result: Result, y: int, scale: float) -> Iterator[str]:
    """One workload's bars under each other, and the mark of the limit across them."""
    bars = _bars(result)
    slots = "1 slot" if result.n_slots == 1 else f"{result.n_slots} slots"
    yield _text(_LEFT - 10, y + 13, f"{result.workload}, {slots}", anchor="end")
    for i, (_, pace) in enumerate(bars):
        top, end = y + i * _BAR, _LEFT + pace.ratio.value * scale
        yield _box(_LEFT, top + 2, end - _LEFT, _BAR - 4, _COLOURS[i % 5])
        if pace.ratio.low is not None and pace.ratio.high is not None:
            low, high, middle = _LEFT + pace.ratio.low * scale, _LEFT + pace.ratio.high * scale, top + _BAR / 2
            yield f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="#222222" stroke-width="2"/>'
            end = max(end, high)
        yield _text(end + 6, top + 13, f"{pace.ratio.value:.2f}")
    if LIMIT in result.paces:
        x = _LEFT + result.paces[LIMIT].ratio.value * scale
        yield f'<path d="M{x:.1f} {y}V{y + _BAR * len(bars)}" stroke="#b03030" stroke-width="3"/>'


def _legend(results: Sequence[Result]) -> Iterator[str]:
    labels = [label for label, _ in _bars(results[0])] if results else []
    x = 12
    for i, label in enumerate(labels):
        yield _box(x, 36, 12, 12, _COLOURS[i % 5])
        name = "foretoken" if label == SPECULATED else label
        yield _text(x + 17, 46, name)
        x += 36 + 7 * len(name)
    yield f'<path d="M{x + 2} 36v12" stroke="#b03030" stroke-width="3"/>'
    yield _text(x + 10, 46, "limit (oracle)")
    yield _text(_WIDTH - 12, 46, "times plain decoding", anchor="end")


def _grid(scale: float, height: int) -> Iterator[str]:
    times = 0
    while _LEFT + times * scale <= _WIDTH - _RIGHT + 1:
        x = _LEFT + times * scale
        colour = "#888888" if times == 1 else "#dddddd"
        yield f'<path d="M{x:.1f} {_TOP - 6}V{height - 6}" stroke="{colour}" stroke-width="1"/>'
        yield _text(x, _TOP - 8, str(times), anchor="middle", size=10)
        times += 1


def _box(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{width:.1f}" height="{height}" fill="{colour}"/>'


def _text(x: float, y: float, text: str, anchor: str = "start", size: int = 12, weight: str = "normal") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}" '
        f'fill="#222222">{escape(text)}</text>'
    )
