// The live view: what the engine does now, a second at a time.

import * as api from "./api.js";
import { Chart } from "./charts.js";
import { InView, Rows, bytesText, duration, h, mark, number, percent, write } from "./dom.js";
import { originClass } from "./origins.js";

const SECONDS = 180;
const FRESH_MS = 3000;
/** Drawing is what a live page costs: with two cores, which the engine may well be using both of, it is done less often. */
const CRAMPED = navigator.hardwareConcurrency <= 2;
/** Every other look is drawn (every fourth), unless an answer began or ended; */
const DRAWN_FOR_MS = CRAMPED ? 3500 : 1500;
/** charts at every fourth (eighth). */
const CHARTED_FOR_MS = CRAMPED ? 7500 : 3500;
const COLUMNS = ["drafter", "offered", "verified", "accepted", "rate", "missed", "own time", "saved", "lost"];

export class LiveView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @type {AbortController | null} */
    this.watching = null;
    /** @type {any[]} */
    this.history = [];
    this.shown = false;
    this._heard = -Infinity;
    this._drawnAt = this._chartedAt = -Infinity;
    this._busy = "";
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
    const rows = h("tbody");
    this.drafters.append(h("table", { class: "numbers-table" },
      h("thead", null, h("tr", null, ...COLUMNS.map((text) => h("th", { scope: "col", text })))), rows));
    this._tileRows = new Rows(this.tiles, tile);
    this._slotRows = new Rows(this.slots, slotRow);
    this._drafterRows = new Rows(rows, drafterRow);
    this._facts = new Rows(this.cache, fact);
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
    const part = (/** @type {Element} */ place, /** @type {(state: any) => void} */ show) => new InView(place, show.bind(this));
    this._numbers = [
      part(this.tiles, this._tiles), part(this.slots, this._slots),
      part(this.drafters, this._drafters), part(this.cache, this._cache),
    ];
    this._charts = [
      part(this.pace.element, this._pace), part(this.ledger.element, this._ledger),
      part(this.positions.element, this._positions), part(this.widths.element, this._widths),
    ];
  }

  enter() {
    this.shown = true;
    if (this.watching || document.hidden) return;
    this._drawnAt = this._chartedAt = -Infinity;
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

  /** Whether the server said just now that it is ready. */
  get hears() {
    return this.watching !== null && performance.now() - this._heard < FRESH_MS;
  }

  /** @param {string} words */
  _say(words) {
    write(this.note, words);
  }

  /** @param {any} state */
  take(state) {
    this._heard = state.state === "ready" ? performance.now() : -Infinity;
    this._say(state.state === "ready" ? "" : `the engine is ${state.state}: ${state.reason ?? ""}`);
    if (!state.totals) return;
    this.history.push(state);
    this.history = this.history.filter((one) => one.time > state.time - SECONDS);
    const busy = state.slots.map((/** @type {any} */ slot) => slot.busy).join();
    const now = performance.now();
    const changed = busy !== this._busy;
    this._busy = busy;
    if (changed || now - this._drawnAt >= DRAWN_FOR_MS) {
      this._drawnAt = now;
      this.tree.hidden = !Object.keys(state.cache ?? {}).length;
      for (const part of this._numbers) part.take(state);
    }
    if (changed || now - this._chartedAt >= CHARTED_FOR_MS) {
      this._chartedAt = now;
      for (const part of this._charts) part.take(state);
    }
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
    const parts = this._tileRows.of(tiles.map(([name]) => name));
    tiles.forEach(([, value, more], at) => (write(parts[at].value, value), write(parts[at].more, more)));
  }

  /** @param {any} state */
  _slots(state) {
    const parts = this._slotRows.of(state.slots.map((/** @type {any} */ slot) => `${slot.id}`));
    state.slots.forEach((/** @type {any} */ slot, /** @type {number} */ at) => {
      const { element, bar, words } = parts[at];
      mark(element, "class", slot.busy ? "slot busy" : "slot");
      mark(bar, "max", `${slot.n_ctx}`);
      mark(bar, "value", `${slot.n_tokens}`);
      write(words, slotWords(slot));
    });
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
    const drafters = Object.entries(state.drafters);
    const parts = this._drafterRows.of(drafters.map(([name]) => name));
    drafters.forEach(([, one], at) => {
      const texts = [number(one.offered), number(one.verified), number(one.accepted), percent(one.accepted, one.verified),
        number(one.missed), duration(one.ms), duration(one.saved_ms), duration(one.lost_ms)];
      texts.forEach((text, column) => write(parts[at].cells[column], text));
    });
  }

  /** @param {any} state */
  _cache(state) {
    const facts = Object.entries(state.cache ?? {});
    const parts = this._facts.of(facts.map(([name]) => name));
    facts.forEach(([name, value], at) =>
      write(parts[at].value, name.endsWith("_bytes") ? bytesText(value) : number(value, Number.isInteger(value) ? 0 : 1)));
  }
}

/** @param {string} name */
function tile(name) {
  const value = h("p", { class: "tile-value" });
  const more = h("p", { class: "hint" });
  return { element: h("div", { class: "tile card" }, h("p", { class: "tile-name", text: name }), value, more), value, more };
}

/** @param {string} id */
function slotRow(id) {
  const bar = h("progress", { "aria-label": `Slot ${id}: context used` });
  const words = h("span", { class: "hint" });
  return { element: h("div", { class: "slot" }, h("span", { text: id }), bar, words), bar, words };
}

/** @param {any} slot */
function slotWords(slot) {
  if (!slot.busy) return `free, remembers ${number(slot.n_cached)}`;
  return slot.reading ? `reading ${number(slot.n_cached)} of ${number(slot.n_prompt)}` : `${number(slot.n_emitted)} tokens said`;
}

/** @param {string} name */
function drafterRow(name) {
  const cells = COLUMNS.slice(1).map(() => h("td"));
  const head = h("th", { scope: "row" }, h("span", { class: originClass(name), text: name }));
  return { element: h("tr", null, head, ...cells), cells };
}

/** @param {string} name */
function fact(name) {
  const value = h("dd");
  return { element: h("div", null, h("dt", { text: name.replace(/_bytes$/, "").replaceAll("_", " ") }), value), value };
}

/** @param {any} drafter */
function used(drafter) {
  return drafter && (drafter.verified || drafter.saved_ms || drafter.lost_ms > 0.5);
}
