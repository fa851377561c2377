// The live view: what the engine does now, a second at a time.

import * as api from "./api.js";
import { Chart } from "./charts.js";
import { bytesText, duration, fill, h, number, percent } from "./dom.js";
import { originClass } from "./origins.js";

const SECONDS = 180;

export class LiveView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @type {AbortController | null} */
    this.watching = null;
    /** @type {any[]} */
    this.history = [];
    this.shown = false;
    // Nobody looks at a hidden tab.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this._stop();
      else if (this.shown) this.enter();
    });
    this.note = h("p", { class: "hint", role: "status" });
    this.tiles = h("div", { class: "tiles" });
    this.slots = h("div", { class: "slots" });
    this.drafters = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Drafters" });
    this.cache = h("dl", { class: "facts" });
    this.pace = new Chart("Tokens and steps per second", { x: "time", unit: "per second",
      hint: "Without speculation every step makes one token per answer: what lies between the lines was guessed." });
    this.ledger = new Chart("The ledger", { x: "time", unit: "ms saved",
      hint: "Time saved against plain steps of the same run, less time lost, by drafter, since the engine started." });
    this.positions = new Chart("Acceptance by place in the draft", { unit: "% right", hint: "Of the tokens verified at that place." });
    this.widths = new Chart("What a step costs by its width", { unit: "ms per step", second: "seconds spent",
      hint: "Bars: where the time went. Line: what the planner expects of a step; dots: what was measured." });
    root.append(
      h("h2", { text: "Live" }), this.note, this.tiles,
      h("section", { class: "card" }, h("h3", { text: "Slots" }), this.slots),
      h("div", { class: "charts" }, this.pace.element, this.ledger.element, this.positions.element, this.widths.element),
      (this.tree = h("section", { class: "card", hidden: true }, h("h3", { text: "State tree" }), this.cache)),
      h("section", { class: "card" }, h("h3", { text: "Drafters" }), this.drafters));
  }

  enter() {
    this.shown = true;
    if (this.watching || document.hidden) return;
    this.watching = new AbortController();
    this._say("waiting for the first look …");
    const { signal } = this.watching;
    api.watch((state) => this.take(state), (words) => this._say(`${words}; trying again …`), signal).finally(() => {
      if (this.watching?.signal === signal) this.watching = null;
    });
  }

  leave() {
    this.shown = false;
    this._stop();
  }

  _stop() {
    this.watching?.abort();
    this.watching = null;
  }

  /** @param {string} words */
  _say(words) {
    this.note.textContent = words;
  }

  /** @param {any} state */
  take(state) {
    this._say(state.state === "ready" ? "" : `the engine is ${state.state}: ${state.reason ?? ""}`);
    if (!state.totals) return;
    this.history.push(state);
    this.history = this.history.filter((one) => one.time > state.time - SECONDS);
    this._tiles(state);
    this._slots(state);
    this._pace(state);
    this._ledger(state);
    this._positions(state);
    this._widths(state);
    this._drafters(state);
    this._cache(state);
  }

  /** @param {any} state */
  _tiles(state) {
    const { totals, rates } = state;
    const busy = state.slots.filter((/** @type {any} */ slot) => slot.busy).length;
    const perStep = totals.emitted && rates?.steps ? rates.tokens / rates.steps : null;
    const tiles = [
      ["tokens/s", number(rates?.tokens, rates?.tokens < 10 ? 1 : 0), rates?.prompt_tokens ? `and ${number(rates.prompt_tokens)} of prompts` : "of answers"],
      ["slots busy", `${busy} of ${state.slots.length}`, `${number(state.waiting)} waiting`],
      ["tokens per step", number(perStep, 2), "now, over all slots"],
      ["accepted", percent(totals.accepted, totals.drafted), `${number(totals.accepted)} of ${number(totals.drafted)} drafted`],
      ["rewinds", number(totals.rewinds), `${duration(totals.rewinds ? totals.rewind_ms / totals.rewinds : null)} each, ${number(totals.replayed)} replayed`],
      ["engine restarts", number(state.restarts), `up for ${duration(state.uptime * 1000)}`],
    ];
    fill(this.tiles, ...tiles.map(([name, value, more]) =>
      h("div", { class: "tile card" }, h("p", { class: "tile-name", text: name }),
        h("p", { class: "tile-value", text: value }), h("p", { class: "hint", text: more }))));
  }

  /** @param {any} state */
  _slots(state) {
    fill(this.slots, ...state.slots.map((/** @type {any} */ slot) => {
      const words = slot.busy
        ? slot.reading ? `reading ${number(slot.n_cached)} of ${number(slot.n_prompt)}` : `${number(slot.n_emitted)} tokens said`
        : `free, remembers ${number(slot.n_cached)}`;
      const bar = h("progress", { max: slot.n_ctx, value: slot.n_tokens, "aria-label": `Slot ${slot.id}: context used` });
      return h("div", { class: `slot ${slot.busy ? "busy" : ""}` }, h("span", { text: `${slot.id}` }), bar, h("span", { class: "hint", text: words }));
    }));
  }

  /** @param {any} state */
  _pace(state) {
    const x = this.history.map((one) => one.time);
    const of = (/** @type {string} */ name) => this.history.map((one) => one.rates?.[name] ?? null);
    this.pace.update(x, [{ label: "tokens/s", values: of("tokens") }, { label: "steps/s", values: of("steps"), dash: [4, 4], origin: "model" }],
      `${number(state.rates?.tokens)} tokens and ${number(state.rates?.steps)} steps per second now.`);
  }

  /** @param {any} state */
  _ledger(state) {
    const names = Object.keys(state.drafters).filter((name) => this.history.some((one) => used(one.drafters[name])));
    const net = (/** @type {any} */ one, /** @type {string} */ name) =>
      one.drafters[name] ? one.drafters[name].saved_ms - one.drafters[name].lost_ms : null;
    const total = names.reduce((sum, name) => sum + (net(state, name) ?? 0), 0);
    this.ledger.update(this.history.map((one) => one.time),
      names.map((name) => ({ label: name, origin: name, values: this.history.map((one) => net(one, name)) })),
      names.length ? `${duration(total)} saved altogether.` : "Nothing has been drafted yet.");
  }

  /** @param {any} state */
  _positions(state) {
    const drafters = Object.entries(state.drafters).filter(([, one]) => one.verified);
    const longest = Math.min(16, Math.max(1, ...drafters.map(([, one]) => one.verified_at.length)));
    const x = Array.from({ length: longest }, (_, at) => at + 1);
    const rate = (/** @type {any} */ one, /** @type {number} */ at) =>
      one.verified_at[at] ? (100 * (one.accepted_at[at] ?? 0)) / one.verified_at[at] : null;
    this.positions.update(x, drafters.map(([name, one]) => ({ label: name, origin: name, values: x.map((_, at) => rate(one, at)) })),
      drafters.map(([name, one]) => `${name} ${percent(one.accepted, one.verified)}`).join(", ") || "Nothing has been verified yet.");
  }

  /** @param {any} state */
  _widths(state) {
    const widths = state.widths.filter((/** @type {any} */ one) => one.width <= 72);
    if (!widths.length) return;
    const most = widths.reduce((/** @type {any} */ a, /** @type {any} */ b) => (b.steps > a.steps ? b : a));
    this.widths.update(widths.map((/** @type {any} */ one) => one.width), [
      { label: "seconds spent", kind: "bars", scale: "second", values: widths.map((/** @type {any} */ one) => (one.steps * one.ms) / 1000) },
      { label: "expected ms", values: widths.map((/** @type {any} */ one) => one.expected_ms) },
      { label: "measured ms", kind: "points", origin: "model", values: widths.map((/** @type {any} */ one) => one.ms) },
    ], `Most steps had ${most.width} ${most.width === 1 ? "row" : "rows"} and took ${duration(most.ms)}.`);
  }

  /** @param {any} state */
  _drafters(state) {
    const head = ["drafter", "offered", "verified", "accepted", "rate", "missed", "own time", "saved", "lost"];
    const row = (/** @type {[string, any]} */ [name, one]) => h("tr", null,
      h("th", { scope: "row" }, h("span", { class: originClass(name), text: name })),
      ...[number(one.offered), number(one.verified), number(one.accepted), percent(one.accepted, one.verified), number(one.missed),
        duration(one.ms), duration(one.saved_ms), duration(one.lost_ms)].map((text) => h("td", { text })));
    fill(this.drafters, h("table", { class: "numbers-table" },
      h("thead", null, h("tr", null, ...head.map((text) => h("th", { scope: "col", text })))),
      h("tbody", null, ...Object.entries(state.drafters).map(row))));
  }

  /** @param {any} state */
  _cache(state) {
    const facts = Object.entries(state.cache ?? {});
    this.tree.hidden = !facts.length;
    fill(this.cache, ...facts.flatMap(([name, value]) => [
      h("dt", { text: name.replace(/_bytes$/, "").replaceAll("_", " ") }),
      h("dd", { text: name.endsWith("_bytes") ? bytesText(value) : number(value, Number.isInteger(value) ? 0 : 1) }),
    ]));
  }
}

/** @param {any} drafter */
function used(drafter) {
  return drafter && (drafter.verified || drafter.saved_ms || drafter.lost_ms > 0.5);
}
