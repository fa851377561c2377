// Tokens on the page: coloured by who said them, with a card that tells more about the one that is pointed at.

import { duration, fill, h, number } from "./dom.js";
import { originClass, words } from "./origins.js";

/** @typedef {import("./answer.js").Answer} Answer */

/** What cannot be seen, made visible: a terminal's escape codes are shown, not obeyed. @param {string} text */
export function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, (c) =>
    c === "\u007f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt(0)),
  );
}

/** @param {Answer} answer @param {number} index @param {string} text */
function span(answer, index, text) {
  const origin = answer.tokens[index]?.origin ?? "model";
  return h("span", { class: originClass(origin), "data-i": index, text: visible(text) });
}

const LONGEST_WORD = 120;

/** Lets a word that never ends be broken somewhere: browsers take very long over lines of which they cannot. */
class Breaks {
  constructor() {
    this._run = 0;
  }

  /** @param {string} text @returns {Node[]} what to put behind it */
  after(text) {
    const space = text.search(/\s\S*$/);
    this._run = space < 0 ? this._run + text.length : text.length - space - 1;
    if (this._run <= LONGEST_WORD) return [];
    this._run = 0;
    return [h("wbr")];
  }
}

/**
 * The spans of a text that stands at some place of the answer.
 * @param {Answer} answer
 * @param {number} start place in `answer.raw`, negative when it is not known
 * @param {string} text
 * @returns {Node[]}
 */
export function paint(answer, start, text) {
  if (start < 0 || !answer.tokens.length) return [document.createTextNode(visible(text))];
  const nodes = [];
  const breaks = new Breaks();
  for (let at = 0; at < text.length; ) {
    const index = answer.tokenAt(start + at);
    if (index >= answer.tokens.length) {
      nodes.push(document.createTextNode(visible(text.slice(at))));
      break;
    }
    const end = Math.min(text.length, answer.ends[index] - start);
    nodes.push(span(answer, index, text.slice(at, end)), ...breaks.after(text.slice(at, end)));
    at = end;
  }
  return nodes;
}

/** Every token exactly as it was said; only what is new is added. */
export class TokenView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    this._shown = 0;
    this._breaks = new Breaks();
  }

  /** @param {Answer} answer @param {number} [n] only so many tokens */
  update(answer, n = answer.tokens.length) {
    const fresh = document.createDocumentFragment();
    for (; this._shown < n; this._shown++) {
      const text = answer.textOf(this._shown);
      const element = span(answer, this._shown, text);
      if (answer.tokens[this._shown].ends) element.classList.add("ends");
      fresh.append(element, ...this._breaks.after(text));
    }
    this.root.append(fresh);
  }
}

/** @param {number | undefined} logprob */
function chance(logprob) {
  if (logprob === undefined) return "";
  const p = 100 * Math.exp(logprob);
  return p > 0 && p < 0.1 ? "< 0.1 %" : `${number(p, 1)} %`;
}

/** @param {Answer} answer @param {number} index */
function cardBody(answer, index) {
  const token = answer.tokens[index];
  const step = answer.steps[answer.stepOf[index]];
  /** @type {Node[]} */
  const rows = [];
  const row = (/** @type {string} */ name, /** @type {string} */ value) =>
    rows.push(h("dt", { text: name }), h("dd", { text: value }));
  if (step) {
    row("batch", `${step.width} ${step.width === 1 ? "row" : "rows"} in ${duration(step.ms)}`);
    row("draft", step.drafted ? `${step.accepted} of ${step.drafted} right` : "none");
    if (step.replayed) row("replayed", `${step.replayed}`);
  }
  if (token.logprob !== undefined) row("probability", chance(token.logprob));
  const others = (token.top ?? []).filter((one) => one.id !== token.id).slice(0, 4);
  return [
    h("p", { class: "card-token" }, h("code", { text: JSON.stringify(visible(token.text || "end of answer")) })),
    h("p", { class: "card-origin" }, h("span", { class: originClass(token.origin), text: words(token.origin) })),
    h("dl", null, ...rows),
    others.length > 0 &&
      h("ul", { class: "others", "aria-label": "Instead of it" },
        ...others.map((one) =>
          h("li", null, h("code", { text: JSON.stringify(visible(one.text)) }), h("span", { text: chance(one.logprob) })),
        )),
  ];
}

/** The one card of the page. */
export class TokenCard {
  /** @param {HTMLElement} element */
  constructor(element) {
    this.element = element;
    document.addEventListener("scroll", () => this.hide(), { capture: true, passive: true });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.hide());
  }

  hide() {
    this.element.hidden = true;
  }

  /** @param {Answer} answer @param {Element} target */
  show(answer, target) {
    const index = Number(/** @type {HTMLElement} */ (target).dataset.i);
    if (!answer.tokens[index]) return;
    fill(this.element, ...cardBody(answer, index));
    this.element.hidden = false;
    const place = target.getClientRects()[0] ?? target.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.element;
    const below = place.bottom + 8 + height < innerHeight;
    this.element.style.left = `${Math.max(8, Math.min(place.left, document.documentElement.clientWidth - width - 8))}px`;
    this.element.style.top = `${below ? place.bottom + 8 : Math.max(8, place.top - height - 8)}px`;
  }

  /**
   * Show the card for tokens that are pointed at, touched, or walked to with the arrow keys.
   * @param {HTMLElement} root
   * @param {() => Answer} answer
   */
  attach(root, answer) {
    const tokenOf = (/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest?.(".token");
    root.addEventListener("pointerover", (event) => {
      const token = tokenOf(event);
      token ? this.show(answer(), token) : this.hide();
    });
    root.addEventListener("pointerleave", () => this.hide());
    root.addEventListener("blur", () => this._walk(root, null));
    root.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by || event.target !== root) return;
      event.preventDefault();
      const tokens = [...root.querySelectorAll(".token")];
      const at = tokens.findIndex((token) => token.classList.contains("here"));
      const next = tokens[Math.max(0, Math.min(tokens.length - 1, at + by))];
      this._walk(root, next);
      if (next) this.show(answer(), next);
    });
  }

  /** @param {HTMLElement} root @param {Element | null} token */
  _walk(root, token) {
    root.querySelector(".here")?.classList.remove("here");
    token?.classList.add("here");
    if (!token) this.hide();
  }
}
