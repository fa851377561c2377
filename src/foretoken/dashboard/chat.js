// The chat: a conversation that can branch, answers coloured by who guessed them.

import * as api from "./api.js";
import { AnswerView } from "./answer_view.js";
import { Conversation } from "./conversation.js";
import { fill, h, number } from "./dom.js";
import { legend } from "./origins.js";
import { Settings } from "./settings.js";

/** @typedef {import("./conversation.js").Message} Message */

const EXAMPLES = [
  { label: "Write a quicksort in Python.", text: "Write a quicksort in Python." },
  {
    label: "Repeat a class unchanged.",
    text:
      "Repeat this unchanged:\n```python\nclass Counter:\n    def __init__(self):\n        self.count = 0\n\n" +
      "    def increment(self):\n        self.count += 1\n        return self.count\n\n" +
      "    def decrement(self):\n        self.count -= 1\n        return self.count\n```",
  },
  { label: "A JSON list of five countries.", text: "Answer with a JSON list of five countries, each with name, capital and population." },
];

export class ChatView {
  /** @param {HTMLElement} root @param {any} app */
  constructor(root, app) {
    this.root = root;
    this.app = app;
    this.settings = new Settings();
    this.conversation = new Conversation();
    /** @type {WeakMap<Message, AnswerView>} */
    this.views = new WeakMap();
    /** @type {AbortController | null} */
    this.running = null;
    this._seen = "";
    this._build();
    this._draw();
  }

  /** @param {any} props */
  loaded(props) {
    this.settings.showDefaults(props.default_generation_settings.params);
  }

  _build() {
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Conversation" });
    this.news = h("p", { class: "hidden", "aria-live": "polite" });
    this.legend = h("div", { class: "legend-place" });
    this.input = h("textarea", { id: "say", rows: 2, "aria-label": "Message", placeholder: "Say something …" });
    this.send = h("button", { type: "submit", class: "primary", text: "Send" });
    this.stop = h("button", { type: "button", text: "Stop", hidden: true, onclick: () => this.halt() });
    const form = h("form", { class: "composer" }, this.input,
      h("div", { class: "row" }, h("span", { class: "hint", text: "Enter sends, Shift+Enter is a new line, Esc stops" }),
        this.stop, this.send));
    form.addEventListener("submit", (/** @type {Event} */ event) => {
      event.preventDefault();
      this.say();
    });
    this.input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.say();
    });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.halt());
    this.side = h("details", { class: "side card" }, h("summary", { text: "Settings" }), this.settings.form());
    this.side.open = matchMedia("(min-width: 70rem)").matches;
    const head = h("div", { class: "chat-head" }, this._toolbar(), this.legend);
    const column = h("div", { class: "column" }, head, this.log, this.news, form);
    this.root.append(h("h2", { class: "hidden", text: "Chat" }), h("div", { class: "with-side" }, column, this.side));
  }

  _toolbar() {
    const speculation = this._switch("speculation", "Speculation", true, () => {});
    const colours = this._switch("colours", "Colours", true, (on) => this.root.classList.toggle("no-colours", !on));
    const exact = this._switch("exact", "Token by token", false, (on) => {
      this.root.classList.toggle("show-exact", on);
      for (const one of this.conversation.path) if (one.answer) this._view(one).now();
    });
    this.speculation = speculation.input;
    const fresh = h("button", { type: "button", class: "quiet new-chat", text: "New chat", onclick: () => this.startOver() });
    return h("div", { class: "toolbar", role: "group", "aria-label": "How answers are made and shown" },
      speculation.label, colours.label, exact.label, h("span", { class: "spring" }), fresh);
  }

  /** @param {string} id @param {string} words @param {boolean} on @param {(on: boolean) => void} changed */
  _switch(id, words, on, changed) {
    const input = h("input", { type: "checkbox", role: "switch", id: `switch-${id}`, checked: on });
    input.addEventListener("change", () => changed(input.checked));
    return { input, label: h("label", { class: "switch" }, input, h("span", { text: words })) };
  }

  startOver() {
    this.halt();
    this.conversation = new Conversation();
    this._draw();
    this.input.focus();
  }

  halt() {
    this.running?.abort();
  }

  say() {
    const text = this.input.value;
    if (!text.trim() || this.running) return;
    this.input.value = "";
    const said = this.conversation.add(this.conversation.end, "user", text);
    this.answer(said);
  }

  /** Ask for an answer to a message, beside those it has already. @param {Message} question */
  async answer(question) {
    if (this.running) return;
    const { conversation } = this;
    const system = this.settings.values.system.trim();
    const messages = [...(system ? [{ role: "system", content: system }] : []), ...conversation.messages(question)];
    const reply = conversation.add(question, "assistant", "");
    const answer = /** @type {import("./answer.js").Answer} */ (reply.answer);
    this.running = new AbortController();
    this._draw();
    const view = this._view(reply);
    this._busy(true);
    try {
      await api.chat(this._body(messages), {
        opened: (request) => (answer.request = request),
        step: (step, tokens) => (answer.takeStep(step, tokens), view.soon()),
        delta: (delta) => (answer.takeDelta(delta), view.soon()),
        finish: (finish, timings) => Object.assign(answer, { finish, timings }),
        usage: (usage) => (answer.usage = usage),
      }, this.running.signal);
    } catch (error) {
      if (this.running?.signal.aborted) answer.finish = "stopped";
      else answer.error = error instanceof api.ApiFailure ? error.message : "The connection to the server was lost.";
    }
    answer.close();
    this.running = null;
    this._busy(false);
    this._follow(() => (view.now(), this._draw()));
    this.news.textContent = answer.error || `Answer complete, ${number(answer.tokens.length)} tokens.`;
  }

  /** @param {{role: string, content: string}[]} messages */
  _body(messages) {
    const values = this.settings.values;
    return {
      messages,
      ...this.settings.sampling,
      ...(values.probabilities ? { logprobs: true, top_logprobs: 5 } : {}),
      ...(this.speculation.checked ? {} : { speculative: { type: "none" } }),
    };
  }

  /** Stay at the end of what is being said, unless the reader has left it. @param {() => void} change */
  _follow(change) {
    const end = document.documentElement;
    const near = end.scrollHeight - end.scrollTop - end.clientHeight < 150;
    change();
    if (near && !this.root.hidden) end.scrollTo({ top: end.scrollHeight });
  }

  /** @param {boolean} busy */
  _busy(busy) {
    this.log.setAttribute("aria-busy", String(busy));
    this.stop.hidden = !busy;
    this.send.disabled = busy;
  }

  _showLegend() {
    const seen = new Set(this.conversation.path.flatMap((one) => [...(one.answer?.origins ?? [])]));
    const key = [...seen].sort().join();
    if (key === this._seen) return;
    this._seen = key;
    fill(this.legend, ...(seen.size ? [legend(seen)] : []));
  }

  /** @param {Message} one */
  _view(one) {
    let view = this.views.get(one);
    if (!view) {
      const exact = () => this.root.classList.contains("show-exact");
      view = new AnswerView(/** @type {any} */ (one.answer), this.app.card, exact, (draw) => {
        this._follow(draw);
        this._showLegend();
      });
      this.views.set(one, view);
      view.now();
    }
    return view;
  }

  _draw() {
    const path = this.conversation.path;
    fill(this.log, ...(path.length ? path.map((one) => this._message(one)) : [this._welcome()]));
    this._showLegend();
  }

  _welcome() {
    const pick = (/** @type {{label: string, text: string}} */ { label, text }) =>
      h("button", { type: "button", class: "example", text: label, onclick: () => {
        this.input.value = text;
        this.say();
      } });
    return h("div", { class: "welcome" },
      h("p", { class: "lead", text: "See which words were guessed, and what that saved." }),
      h("p", { text: "Drafters guess several words ahead, the model checks them all in one step. " +
        "What it would have said itself is kept: the text is the same, it only comes faster." }),
      h("div", { class: "examples" }, ...EXAMPLES.map(pick)));
  }

  /** @param {Message} one */
  _message(one) {
    const mine = one.role === "user";
    const actions = h("span", { class: "actions" }, this._branches(one));
    if (!this.running) {
      actions.append(mine
        ? h("button", { type: "button", class: "quiet", text: "edit", onclick: () => this._edit(one) })
        : h("button", { type: "button", class: "quiet", text: "again", "aria-label": "Regenerate this answer",
            onclick: () => this.answer(/** @type {Message} */ (one.parent)) }));
      if (mine) {
        actions.append(h("button", { type: "button", class: "quiet", text: "race",
          "aria-label": "Race with and without speculation on this message",
          onclick: () => this.app.views.race.propose(one.text) }));
      }
    }
    const head = h("header", null, h("span", { class: "who", text: mine ? "You" : "Model" }), actions);
    const body = mine ? h("p", { class: "mine", dir: "auto", tabindex: 0, text: one.text }) : this._view(one).element;
    return h("article", { class: `message ${one.role}` }, head, body);
  }

  /** @param {Message} one */
  _branches(one) {
    const { children, chosen } = /** @type {Message} */ (one.parent);
    if (children.length < 2) return null;
    const turn = (/** @type {string} */ text, /** @type {string} */ label, /** @type {number} */ by) =>
      h("button", { type: "button", class: "quiet", text, "aria-label": label, disabled: Boolean(this.running),
        onclick: () => (this.conversation.choose(one, by), this._draw()) });
    return h("span", { class: "branches" }, turn("‹", "The branch before", -1), ` ${chosen + 1}/${children.length} `,
      turn("›", "The next branch", 1));
  }

  /** Write a message anew; what was said after the old one stays on its own branch. @param {Message} one */
  _edit(one) {
    const at = this.conversation.path.indexOf(one);
    const field = h("textarea", { class: "editing", "aria-label": "Edit this message", rows: 3 });
    field.value = one.text;
    const done = () => {
      if (!field.value.trim()) return;
      this.answer(this.conversation.add(/** @type {Message} */ (one.parent), "user", field.value));
    };
    const form = h("form", { class: "composer" }, field, h("div", { class: "row end" },
      h("button", { type: "button", class: "quiet", text: "Cancel", onclick: () => this._draw() }),
      h("button", { type: "submit", class: "primary", text: "Send" })));
    form.addEventListener("submit", (/** @type {Event} */ event) => (event.preventDefault(), done()));
    field.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) (event.preventDefault(), done());
      if (event.key === "Escape") this._draw();
    });
    this.log.children[at].replaceWith(h("article", { class: "message user" }, form));
    field.focus();
  }
}
