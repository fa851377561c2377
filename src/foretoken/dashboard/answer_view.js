// An answer on the page while it grows: formatted or token by token, and what it cost.

import { duration, fill, h, number, percent } from "./dom.js";
import { MarkdownView } from "./markdown.js";
import { TokenView, paint } from "./tokens.js";

/** @typedef {import("./answer.js").Answer} Answer */

export class AnswerView {
  /**
   * @param {Answer} answer
   * @param {import("./tokens.js").TokenCard} card
   * @param {() => boolean} isExact whether it is shown token by token
   * @param {(draw: () => void) => void} changing does every change
   */
  constructor(answer, card, isExact, changing) {
    this.answer = answer;
    this._isExact = isExact;
    this._changing = changing;
    const said = h("div", { class: "said" });
    const thought = h("div", { class: "said thought" });
    const exact = h("div", { class: "exact" });
    this._thoughts = h("details", { class: "thoughts", hidden: true }, h("summary", { text: "Thoughts" }), thought);
    this.body = h("div", { class: "answer", tabindex: 0, role: "group", dir: "auto",
      "aria-label": "Answer; arrow keys go from token to token" }, this._thoughts, said, exact);
    this._figures = h("span", null);
    this._way = h("span", null);
    this.element = h("div", null, this.body, h("p", { class: "cost" }, this._figures, this._way));
    this._said = new MarkdownView(said);
    this._thought = new MarkdownView(thought);
    this._exact = new TokenView(exact);
    this._next = 0;
    this._timer = 0;
    card.attach(this.body, () => this.answer);
  }

  /** Show what is new soon; often enough to look alive, seldom enough to leave the browser time. */
  soon() {
    if (this._timer) return;
    this._timer = window.setTimeout(() => {
      this._timer = 0;
      const began = performance.now();
      this.now();
      this._next = Math.max(60, 4 * (performance.now() - began));
    }, this._next);
  }

  now() {
    this._changing(() => {
      if (this._isExact()) this._exact.update(this.answer);
      else this._format();
      fill(this._figures, ...cost(this.answer));
      this._showWay();
    });
  }

  /** Once: figures still come in when the link is there, and one that is drawn anew under a click loses it. */
  _showWay() {
    const { request, finish, error } = this.answer;
    if (!request || !finish || error || this._way.hasChildNodes()) return;
    const address = `/requests/${encodeURIComponent(request)}`;
    fill(this._way, " · ", h("a", { href: address, "data-nav": true, class: "to-request", text: "how it came about" }));
  }

  _format() {
    const { answer } = this;
    const places = answer.places();
    const painter = (/** @type {number} */ base) => (/** @type {string} */ text, /** @type {number} */ start) =>
      paint(answer, base < 0 || start < 0 ? -1 : base + start, text);
    this._thoughts.hidden = !answer.thought;
    this._thought.update(answer.thought, painter(places.thought));
    this._said.update(answer.content, painter(places.content));
  }
}

/** @param {Answer} answer @returns {(Node | string)[]} */
function cost(answer) {
  if (answer.error) return [h("strong", { class: "wrong", text: answer.error })];
  const n = answer.tokens.length;
  if (!n) return [answer.finish ? "no answer" : "reading the prompt …"];
  const pace = answer.timings?.predicted_per_second ?? answer.pace;
  const parts = [
    h("strong", { text: `${number(pace)} tokens/s` }),
    `${number(n)} tokens in ${number(answer.steps.length)} steps`,
    `${number(answer.guessed)} guessed (${percent(answer.guessed, n)})`,
  ];
  const saved = answer.usage?.speculation?.saved_ms;
  if (saved) parts.push(`${saved > 0 ? "saved" : "lost"} ${duration(Math.abs(saved))}`);
  if (answer.finish === "stopped") parts.push("stopped");
  return parts.flatMap((part, at) => (at ? [" · ", part] : [part]));
}
