// The race: one prompt, one seed, with and without speculation, then both side by side as they really went.

import { Answer } from "./answer.js";
import * as api from "./api.js";
import { duration, fill, h, number } from "./dom.js";
import { legend } from "./origins.js";
import { TokenView } from "./tokens.js";

const PROMPT = `Rename the method \`add\` to \`append\` everywhere in this file. Answer with the complete updated file.

\`\`\`python
class Basket:
    def __init__(self):
        self.items = []

    def add(self, name, price):
        self.items.append((name, price))

    def total(self):
        return sum(price for _, price in self.items)


basket = Basket()
basket.add("bread", 3.20)
basket.add("milk", 1.10)
print(basket.total())
\`\`\``;

/** The speculated run goes first: what drafters remember of an answer must not help them to win. */
const LANES = [
  { name: "with speculation", body: {} },
  { name: "without", body: { speculative: { type: "none" } } },
];

/** @typedef {{answer: Answer, root: HTMLElement, bar: HTMLProgressElement, clock: HTMLElement, times: number[]}} Lane */

export class RaceView {
  /** @param {HTMLElement} root @param {any} app */
  constructor(root, app) {
    this.root = root;
    this.app = app;
    /** @type {AbortController | null} */
    this.running = null;
    /** @type {Lane[]} */
    this.lanes = [];
    this.raced = new Set();
    this._frame = 0;
    this._build();
  }

  _build() {
    this.prompt = h("textarea", { id: "race-prompt", rows: 7 });
    this.prompt.value = PROMPT;
    this.seed = h("input", { id: "race-seed", type: "number", min: 0, value: 7 });
    this.temperature = h("input", { id: "race-temperature", type: "number", min: 0, max: 5, step: 0.1, value: 0 });
    this.most = h("input", { id: "race-most", type: "number", min: 1, max: 4096, value: 256 });
    this.go = h("button", { type: "submit", class: "primary", text: "Race" });
    this.stop = h("button", { type: "button", text: "Stop", hidden: true, onclick: () => this.running?.abort() });
    const field = (/** @type {string} */ id, /** @type {string} */ words, /** @type {HTMLElement} */ input) =>
      h("div", null, h("label", { for: id, text: words }), input);
    const form = h("form", { class: "card race-form" },
      h("label", { for: "race-prompt", text: "Prompt" }), this.prompt,
      h("div", { class: "row bottom" },
        field("race-seed", "Seed", this.seed), field("race-temperature", "Temperature", this.temperature),
        field("race-most", "Most tokens", this.most), h("span", { class: "spring" }), this.stop, this.go));
    form.addEventListener("submit", (/** @type {Event} */ event) => (event.preventDefault(), this.race()));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.running?.abort());
    this.result = h("div", { class: "result", role: "status" });
    this.track = h("div", { class: "track" });
    this.root.append(
      h("h2", { text: "The same prompt and seed, with and without" }),
      h("p", { class: "hint", text: "The runs take place one after the other, so that neither slows the other down; " +
        "then they are shown side by side, as they went." }),
      form, this.result, this.track);
  }

  leave() {
    cancelAnimationFrame(this._frame);
  }

  /** @param {string} text */
  propose(text) {
    this.prompt.value = text;
    this.app.navigate("/#race");
    this.race();
  }

  async race() {
    if (this.running || !this.prompt.value.trim()) return;
    const signal = (this.running = new AbortController()).signal;
    this._busy(true);
    this.lanes = LANES.map(({ name }) => this._lane(name));
    fill(this.track, h("div", { class: "lanes" }, ...this.lanes.map((lane) => lane.root)));
    try {
      for (const [at, { name, body }] of LANES.entries()) {
        this._say(`Running ${name} (${at + 1} of ${LANES.length}) …`);
        await this._run(this.lanes[at], body, signal);
      }
      this._finish();
    } catch (error) {
      const words = signal.aborted ? "Stopped." : error instanceof api.ApiFailure ? error.message : "The connection was lost.";
      this._say(words, !signal.aborted);
    }
    this.running = null;
    this._busy(false);
  }

  /** @param {Lane} lane @param {object} extra @param {AbortSignal} signal */
  async _run(lane, extra, signal) {
    const { answer } = lane;
    await api.chat(this._body(extra), {
      opened: (request) => (answer.request = request),
      step: (step, tokens) => {
        answer.takeStep(step, tokens);
        lane.clock.textContent = `recording, ${number(answer.tokens.length)} tokens`;
      },
      delta: (delta) => answer.takeDelta(delta),
      finish: (finish, timings) => Object.assign(answer, { finish, timings }),
      usage: (usage) => (answer.usage = usage),
    }, signal);
    answer.close();
    let time = 0;
    answer.steps.forEach((step, at) => {
      time += at ? step.ms : 0;
      for (let n = 0; n < step.tokens; n++) lane.times.push(time);
    });
  }

  /** @param {object} extra */
  _body(extra) {
    return {
      messages: [{ role: "user", content: this.prompt.value }],
      seed: Number(this.seed.value) || 0,
      temperature: Number(this.temperature.value) || 0,
      max_tokens: Number(this.most.value) || 256,
      // Neither may profit from what the other has read.
      cache_prompt: false,
      ...extra,
    };
  }

  _finish() {
    const [fast, plain] = this.lanes.map((lane) => lane.answer);
    const key = JSON.stringify(this._body({}));
    const again = this.raced.has(key);
    this.raced.add(key);
    const verdict = compare(fast, plain);
    const speeds = [1, 0.5, 0.25, 0.1];
    // A short race is over before one has looked: slow it down to some seconds, and say so.
    const wanted = Math.min(1, Math.max(...this.lanes.map((lane) => lane.times.at(-1) ?? 0)) / 4000);
    const speed = h("select", { id: "race-speed" },
      ...speeds.map((one) => h("option", { value: one, text: one === 1 ? "real time" : `1/${1 / one} of the speed` })));
    speed.value = String(speeds.find((one) => one <= wanted * 1.5) ?? speeds.at(-1));
    const replay = () => this._replay(Number(speed.value));
    speed.addEventListener("change", replay);
    fill(this.result,
      h("p", { class: `verdict ${verdict.look}` }, h("strong", { text: verdict.words })),
      h("p", { class: "hint", text: verdict.detail }),
      again && h("p", { class: "hint", text: "This very prompt was raced before in this tab: drafters may remember its answer." }),
      h("div", { class: "row" }, h("button", { type: "button", text: "Replay", onclick: replay }),
        h("label", { for: "race-speed", text: "shown in" }), speed,
        legend(fast.origins)));
    replay();
  }

  /** Show both runs from the start, each token when it came. @param {number} speed */
  _replay(speed) {
    cancelAnimationFrame(this._frame);
    for (const lane of this.lanes) lane.root.querySelector(".exact")?.replaceChildren();
    const shown = this.lanes.map((lane) => new Shown(lane));
    const longest = Math.max(1, ...this.lanes.map((lane) => lane.times.at(-1) ?? 0));
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const began = performance.now();
    const frame = () => {
      const time = calm ? Infinity : (performance.now() - began) * speed;
      const going = shown.map((one) => one.until(time, longest));
      if (going.some(Boolean)) this._frame = requestAnimationFrame(frame);
    };
    frame();
  }

  /** @param {string} name @returns {Lane} */
  _lane(name) {
    const bar = h("progress", { max: 1, value: 0, "aria-label": `${name}: progress` });
    const clock = h("p", { class: "clock", text: "waiting" });
    const body = h("div", { class: "exact answer", tabindex: 0, role: "group", "aria-label": `Answer ${name}` });
    const answer = new Answer();
    this.app.card.attach(body, () => answer);
    const root = h("article", { class: "card lane" }, h("h3", { text: name }), clock, bar, body);
    return { answer, root, bar, clock, times: [] };
  }

  /** @param {string} words @param {boolean} [wrong] */
  _say(words, wrong = false) {
    fill(this.result, h("p", { class: wrong ? "wrong" : "hint", text: words }));
  }

  /** @param {boolean} busy */
  _busy(busy) {
    this.go.disabled = busy;
    this.stop.hidden = !busy;
  }
}

/** One lane while it is replayed. */
class Shown {
  /** @param {Lane} lane */
  constructor(lane) {
    this.lane = lane;
    this.view = new TokenView(/** @type {HTMLElement} */ (lane.root.querySelector(".exact")));
    this.n = 0;
  }

  /** @param {number} time @param {number} longest @returns {boolean} whether there is more to come */
  until(time, longest) {
    const { answer, times, bar, clock } = this.lane;
    while (this.n < times.length && times[this.n] <= time) this.n++;
    const over = this.n === times.length;
    const end = times.at(-1) ?? 0;
    this.view.update(answer, this.n);
    bar.value = over ? 1 : this.n / times.length;
    const now = over ? end : Math.min(time, longest);
    clock.textContent = `${duration(now)} · ${number(this.n)} tokens${over ? ` · ${number(answer.timings?.predicted_per_second)} tokens/s` : ""}`;
    return !over;
  }
}

/** The outcome in words, whatever it is. @param {Answer} fast @param {Answer} plain */
export function compare(fast, plain) {
  const differs = plain.tokens.findIndex((token, at) => token.id !== fast.tokens[at]?.id);
  const same = differs < 0 && plain.tokens.length === fast.tokens.length;
  const at = differs < 0 ? plain.tokens.length : differs;
  const ratio = (fast.timings?.predicted_per_second ?? 0) / (plain.timings?.predicted_per_second || 1);
  const pace = ratio >= 1.02 ? `${number(ratio, 1)}× faster` : ratio > 0.98 ? "as fast" : `${number(1 / ratio, 2)}× slower`;
  const times = `${number(fast.timings?.predicted_per_second)} against ${number(plain.timings?.predicted_per_second)} tokens/s; `
    + `${number(fast.steps.length)} steps instead of ${number(plain.steps.length)}, ${number(fast.guessed)} tokens guessed.`;
  if (same) return { look: ratio >= 1.02 ? "won" : "", words: `Same text, ${pace}`, detail: times };
  const words = `Different text from token ${number(at + 1)} on, ${pace}`;
  const pair = [plain, fast].map((one) => JSON.stringify(one.tokens[at] ? one.tokens[at].text : "the end"));
  return { look: "differs", words, detail: `The model alone said ${pair[0]}, with speculation ${pair[1]}. ${times}` };
}
