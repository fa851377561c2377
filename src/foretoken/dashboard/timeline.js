// The steps of an answer, in time: how wide each was, what of its draft was right.

import { duration, h, number, svg } from "./dom.js";
import { colourOf } from "./origins.js";

const HEIGHT = 120;
const MOST = 3000;

/** @typedef {import("./api.js").Step} Step */

/** @param {Step[]} steps */
export function timeline(steps) {
  const shown = steps.slice(0, MOST);
  const total = shown.slice(1).reduce((sum, step) => sum + step.ms, 0) || 1;
  const tallest = Math.max(2, ...shown.map((step) => rows(step)));
  const width = Math.max(600, shown.length * 4);
  const unit = (HEIGHT - 4) / tallest;
  /** @type {Node[]} */
  const parts = [];
  let x = 0;
  shown.forEach((step, at) => {
    // The first step read the prompt: it gets the place of one, whatever it took.
    const w = at ? Math.max(1.5, (step.ms / total) * (width - 8)) : 6;
    parts.push(bar(step, at, x, Math.max(1, w - 1), unit));
    x += w;
  });
  const accepted = steps.reduce((sum, step) => sum + step.accepted, 0);
  const drafted = steps.reduce((sum, step) => sum + step.drafted, 0);
  const words = `${number(steps.length)} steps in ${duration(total)}, ${number(accepted)} of ${number(drafted)} drafted tokens accepted`;
  const picture = svg("svg", { viewBox: `0 0 ${Math.ceil(x)} ${HEIGHT}`, height: HEIGHT, preserveAspectRatio: "none", role: "img", "aria-label": words }, ...parts);
  picture.style.minWidth = `${shown.length * 3}px`;
  return h("figure", { class: "timeline" },
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Steps over time" }, picture),
    h("figcaption", { class: "hint" },
      "Each bar is a step, as wide as the time it took. From below: the model's own token, accepted guesses in their drafter's colour, " +
      "rejected guesses in outline, replayed tokens in grey. ", words, steps.length > MOST ? ` (the first ${number(MOST)} are drawn)` : ""));
}

/** @param {Step} step */
function rows(step) {
  return 1 + step.drafted + step.replayed;
}

/** @param {Step} step @param {number} at @param {number} x @param {number} width @param {number} unit */
function bar(step, at, x, width, unit) {
  const colour = step.drafter ? colourOf(step.drafter) : colourOf("model");
  let y = HEIGHT - 2;
  /** @type {Node[]} */
  const pieces = [];
  const piece = (/** @type {number} */ n, /** @type {Record<string, any>} */ look) => {
    if (!n) return;
    y -= n * unit;
    pieces.push(svg("rect", { x, y, width, height: Math.max(1, n * unit - 0.5), ...look }));
  };
  piece(1, { class: "step-own" });
  piece(step.accepted, { fill: colour });
  piece(step.drafted - step.accepted, { fill: "none", stroke: colour, "stroke-width": 1, "stroke-dasharray": "2 2", "vector-effect": "non-scaling-stroke" });
  piece(step.replayed, { class: "step-replayed" });
  const title = svg("title");
  title.textContent = `step ${at + 1}: ${step.width} rows in ${duration(step.ms)}, ${step.accepted} of ${step.drafted} accepted`
    + `${step.drafter ? ` (${step.drafter})` : ""}${step.replayed ? `, ${step.replayed} replayed` : ""}`;
  return svg("g", {}, title, ...pieces);
}

/** @param {Step[]} steps */
export function stepTable(steps) {
  const head = ["step", "rows", "drafter", "drafted", "accepted", "replayed", "tokens", "ms"];
  const row = (/** @type {Step} */ step, /** @type {number} */ at) =>
    h("tr", null, ...[at + 1, step.width, step.drafter || "–", step.drafted, step.accepted, step.replayed, step.tokens, number(step.ms, 2)]
      .map((text) => h("td", { text })));
  return h("details", null, h("summary", { text: "Every step as a table" }),
    h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Steps" },
      h("table", { class: "numbers-table" },
        h("thead", null, h("tr", null, ...head.map((text) => h("th", { scope: "col", text })))),
        h("tbody", null, ...steps.slice(0, 1000).map(row)))));
}
