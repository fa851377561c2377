// Requests that are over: a list of one's own, and for each how its answer came about.

import { Answer } from "./answer.js";
import * as api from "./api.js";
import { duration, fill, h, number, percent } from "./dom.js";
import { legend } from "./origins.js";
import { stepTable, timeline } from "./timeline.js";
import { TokenView, visible } from "./tokens.js";

/** @param {unknown} error */
function reason(error) {
  return error instanceof api.ApiFailure ? error.message : "the server cannot be reached";
}

export class RequestListView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.list = h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Requests" });
    root.append(h("h2", { text: "Your latest requests" }),
      h("p", { class: "hint", text: "Kept in the server's memory, for the key that made them and no other." }), this.list);
  }

  async enter() {
    try {
      const { data } = await api.get("/requests");
      fill(this.list, data.length ? table(data) : h("p", { text: "There are none yet." }));
    } catch (error) {
      fill(this.list, h("p", { class: "wrong", text: reason(error) }));
    }
  }
}

/** @param {any[]} data */
function table(data) {
  const head = ["ended", "request", "answer", "tokens", "guessed", "tokens/s", "saved"];
  const row = (/** @type {any} */ one) => h("tr", null,
    h("td", { text: new Date(one.ended * 1000).toLocaleTimeString() }),
    h("th", { scope: "row" }, h("a", { href: `/requests/${encodeURIComponent(one.id)}`, "data-nav": true, text: one.id })),
    h("td", { class: "words", text: visible(one.beginning) || "–" }),
    ...[number(one.n_tokens), percent(one.n_guessed, one.n_tokens), number(one.tokens_per_second), duration(one.saved_ms)]
      .map((text) => h("td", { text })));
  return h("table", { class: "numbers-table" },
    h("thead", null, h("tr", null, ...head.map((text) => h("th", { scope: "col", text })))),
    h("tbody", null, ...data.map(row)));
}

export class RequestView {
  /** @param {HTMLElement} root @param {any} app */
  constructor(root, app) {
    this.root = root;
    this.app = app;
  }

  /** @param {string} id */
  async enter(id) {
    fill(this.root, h("h2", { text: `Request ${id}` }), h("p", { class: "hint", text: "loading …" }));
    try {
      const request = await api.get(`/requests/${encodeURIComponent(id)}`);
      fill(this.root, ...this._parts(request));
    } catch (error) {
      fill(this.root, h("h2", { text: `Request ${id}` }), h("p", { class: "wrong", text: reason(error) }));
    }
  }

  /** @param {any} request */
  _parts(request) {
    const json = JSON.stringify(request, null, 2);
    const origins = request.choices.flatMap((/** @type {any} */ choice) => choice.tokens.map((/** @type {any} */ token) => token.origin));
    return [
      h("h2", null, "Request ", h("code", { text: request.id })),
      h("p", { class: "hint", text: `${request.path} · ${request.model} · ended ${new Date(request.ended * 1000).toLocaleString()}` }),
      legend(origins),
      ...request.choices.map((/** @type {any} */ choice) => this._choice(choice, request.choices.length > 1)),
      h("details", { class: "card" }, h("summary", { text: `The prompt (${number(request.n_prompt)} tokens, its end)` }),
        h("pre", { class: "wrap", text: visible(request.prompt_end) })),
      h("details", { class: "card" }, h("summary", { text: "Settings" }),
        h("pre", { class: "wrap", text: JSON.stringify(request.settings, null, 2) })),
      h("details", { class: "card" }, h("summary", { text: "The JSON of this page" }),
        h("p", null, h("a", { href: URL.createObjectURL(new Blob([json], { type: "application/json" })), download: `${request.id}.json`, text: "download" })),
        h("pre", { class: "wrap", tabindex: 0, text: json.length > 100_000 ? `${json.slice(0, 100_000)}\n…` : json })),
    ];
  }

  /** @param {any} choice @param {boolean} several */
  _choice(choice, several) {
    const answer = new Answer();
    let at = 0;
    for (const step of choice.steps) {
      answer.takeStep(step, choice.tokens.slice(at, at + step.tokens));
      at += step.tokens;
    }
    answer.takeStep(null, choice.tokens.slice(at));
    answer.close();
    const body = h("div", { class: "exact answer", tabindex: 0, role: "group", dir: "auto", "aria-label": "Answer; arrow keys go from token to token" });
    new TokenView(body).update(answer);
    this.app.card.attach(body, () => answer);
    return h("section", { class: "card" },
      several && h("h3", { text: `Choice ${choice.index + 1}` }),
      h("div", { class: "said-and-facts" }, body, facts(choice)), h("h3", { text: "Steps" }), timeline(choice.steps), stepTable(choice.steps));
  }
}

/** @param {any} choice */
function facts(choice) {
  const { timings, speculation } = choice;
  const pairs = [["ended by", choice.finish], ["tokens", number(choice.tokens.length)], ["steps", number(choice.steps.length)]];
  if (timings) {
    pairs.push(["prompt", `${number(timings.prompt_n)} read in ${duration(timings.prompt_ms)}, ${number(timings.cache_n)} remembered`],
      ["answer", `${duration(timings.predicted_ms)}, ${number(timings.predicted_per_second)} tokens/s`]);
  }
  if (speculation) {
    pairs.push(["drafted", number(speculation.drafted)], ["accepted", `${number(speculation.accepted)} (${percent(speculation.accepted, speculation.drafted)})`],
      ["rewinds", `${number(speculation.rewinds)} in ${duration(speculation.rewind_ms)}, ${number(speculation.replayed)} tokens replayed`],
      [speculation.saved_ms < 0 ? "lost" : "saved", duration(speculation.saved_ms === null ? null : Math.abs(speculation.saved_ms))]);
  }
  return h("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]));
}
