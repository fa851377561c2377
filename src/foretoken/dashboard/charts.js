// Charts that follow the page's colours; each is also told in words for those who do not see it.

import { h, mark, write } from "./dom.js";
import { STYLES, colourOf, styleOf } from "./origins.js";

/** @typedef {{label: string, origin?: string, values: (number | null)[], kind?: "line" | "bars" | "points", scale?: string, dash?: number[]}} Series */

const HEIGHT = 200;

/** The page's own colours, as they are now. */
function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return { text: read("--muted"), line: read("--line"), accent: read("--accent"), bars: read("--bars") };
}

/** A chart in a figure; `update` may change its series at any time. */
export class Chart {
  /**
   * @param {string} title
   * @param {{x?: "time" | "count", unit: string, second?: string, hint?: string}} options
   */
  constructor(title, options) {
    this.options = options;
    this.words = h("figcaption", { class: "hint" });
    this.place = h("div", { class: "plot", role: "img", "aria-label": title });
    const hint = options.hint ? h("p", { class: "hint", text: options.hint }) : null;
    this.element = h("figure", { class: "card chart" }, h("h3", { text: title }), hint, this.place, this.words);
    this.title = title;
    /** @type {any} */
    this.plot = null;
    this._shape = "";
    /** @type {any[]} */
    this._data = [];
    /** @type {Series[]} */
    this._series = [];
    this._drawn = "";
    new ResizeObserver(() => this.plot?.setSize({ width: this._width(), height: HEIGHT })).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this._rebuild());
  }

  /** @param {number[]} x @param {Series[]} series @param {string} words what the chart shows, in a sentence */
  update(x, series, words) {
    write(this.words, words);
    mark(this.place, "aria-label", `${this.title}: ${words}`);
    this._data = [x, ...series.map((one) => one.values)];
    this._series = series;
    const shape = this._series.map((one) => one.label).join();
    const now = JSON.stringify(this._data);
    if (now === this._drawn) return;
    if (!this.plot || shape !== this._shape) this._rebuild();
    else this.plot.setData(this._data);
    this._shape = shape;
    this._drawn = this.plot ? now : "";
  }

  _width() {
    return Math.max(200, this.place.clientWidth);
  }

  _rebuild() {
    if (!this._data.length || !this.place.clientWidth) return;
    this.plot?.destroy();
    this.plot = new /** @type {any} */ (window).uPlot(this._options(), this._data, this.place);
  }

  _options() {
    const { x, unit, second } = this.options;
    const colours = theme();
    const axis = (/** @type {object} */ more) => ({
      stroke: colours.text, grid: { stroke: colours.line, width: 1 }, ticks: { stroke: colours.line, width: 1 }, ...more,
    });
    const axes = [
      axis({ space: 70, values: (/** @type {any} */ _, /** @type {number[]} */ at) => at.map(x === "time" ? clock : whole),
        ...(x === "time" ? {} : { incrs: [1, 2, 5, 10, 20, 50, 100] }) }),
      axis({ scale: "y", label: unit, labelSize: 18, labelFont: "12px system-ui", size: 66 }),
    ];
    if (second) axes.push(axis({ scale: "second", side: 1, label: second, labelSize: 18, labelFont: "12px system-ui", size: 52, grid: { show: false } }));
    return {
      width: this._width(),
      height: HEIGHT,
      cursor: { y: false, drag: { x: false, y: false } },
      legend: { live: false, markers: { width: 2, dash: (/** @type {any} */ _, /** @type {number} */ at) => pattern(this._series[at - 1]) } },
      scales: { x: { time: x === "time", ...(x === "time" ? {} : { range: aroundCounts }) }, y: { range: fromZero }, ...(second ? { second: { range: fromZero } } : {}) },
      axes,
      series: [{}, ...this._series.map((one) => seriesOptions(one, colours))],
    };
  }
}

/** How a line is drawn, in the legend's words. @param {Series | undefined} one */
function pattern(one) {
  const dash = one?.dash ?? (one?.origin && one.kind !== "points" ? STYLES[styleOf(one.origin)].dash : []);
  if (!dash.length) return "solid";
  return dash[0] <= 2 ? "dotted" : "dashed";
}

const time = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** @param {number} seconds */
function clock(seconds) {
  return time.format(seconds * 1000);
}

/** Room for the bars at both ends. @param {any} _ @param {number | null} low @param {number | null} high */
function aroundCounts(_, low, high) {
  return [Math.max(0, (low ?? 1) - 1), (high ?? 1) + 1];
}

/** @param {number} value */
function whole(value) {
  return Number.isInteger(value) ? String(value) : "";
}

/** @param {any} _ @param {number | null} low @param {number | null} high */
function fromZero(_, low, high) {
  const top = Math.max(0, high ?? 0);
  const bottom = Math.min(0, low ?? 0);
  return [bottom * 1.1, top === bottom ? 1 : top * 1.1];
}

/** @param {Series} one @param {ReturnType<typeof theme>} colours */
function seriesOptions(one, colours) {
  const colour = one.origin ? colourOf(one.origin) : one.kind === "bars" ? colours.bars : colours.accent;
  const dash = one.dash ?? (one.origin ? STYLES[styleOf(one.origin)].dash : []);
  const found = { label: one.label, scale: one.scale ?? "y", stroke: colour, width: 2, dash, spanGaps: true, points: { show: false } };
  const { uPlot } = /** @type {any} */ (window);
  if (one.kind === "bars") return { ...found, fill: colour, width: 0, paths: uPlot.paths.bars({ size: [0.6, 24, 4] }) };
  if (one.kind === "points") return { ...found, paths: () => null, points: { show: true, size: 7, fill: colour } };
  return found;
}
