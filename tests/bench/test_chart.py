"""The chart: a document any browser draws."""

from __future__ import annotations

from xml.etree import ElementTree

from foretoken.bench.chart import svg
from foretoken.bench.compare import Pace, Result
from foretoken.bench.statistics import Ratio


def result(name: str, **paces: Ratio) -> Result:
    found = {label: Pace(100 * ratio.value, ratio, 1) for label, ratio in paces.items()}
    return Result(name, name, 1, 1, 1, 100, found, 3.0, 2.0, 50.0)


def test_bars_intervals_and_limits_are_drawn() -> None:
    results = [
        result("edit", plain=Ratio(1.0), speculated=Ratio(2.4, 2.2, 2.6), limit=Ratio(2.9), other=Ratio(1.5)),
        result("a < b & c", plain=Ratio(1.0), speculated=Ratio(1.0), limit=Ratio(2.9), other=Ratio(0.9)),
    ]
    document = ElementTree.fromstring(svg(results, "model & machine"))
    texts = [element.text for element in document.iter() if element.tag.endswith("text")]
    assert {"edit, 1 slot", "a < b & c, 1 slot", "2.40", "1.50", "foretoken", "other", "model & machine"} <= set(texts)
    rects = [element for element in document.iter() if element.tag.endswith("rect")]
    assert len(rects) == 1 + 2 + 4, "the ground, the legend, two bars per workload"
    widths = [float(rect.attrib["width"]) for rect in rects[3:]]
    assert widths[0] > widths[1] > widths[2] > widths[3]


def test_no_results_make_an_empty_chart() -> None:
    assert ElementTree.fromstring(svg([], "nothing")) is not None
