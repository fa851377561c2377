// What a person may choose for an answer; remembered by the browser, never the key.

import { h } from "./dom.js";

const STORED = "foretoken.settings";

/** Sampling settings under llama.cpp's names: label, step, bounds; empty leaves it to the server. */
const FIELDS = [
  { name: "temperature", label: "Temperature", min: 0, max: 5, step: 0.05 },
  { name: "top_k", label: "Top k", min: 0, max: 1000, step: 1 },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01 },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01 },
  { name: "repeat_penalty", label: "Repeat penalty", min: 0.1, max: 3, step: 0.05 },
  { name: "seed", label: "Seed", min: 0, max: 4294967294, step: 1 },
  { name: "max_tokens", label: "Most tokens", min: 1, max: 1000000, step: 1 },
];

export class Settings {
  constructor() {
    /** @type {Record<string, any>} */
    this.values = { probabilities: true, system: "", ...read() };
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    this.values[name] = value;
    localStorage.setItem(STORED, JSON.stringify(this.values));
  }

  /** @returns {Record<string, number>} the fields of a request */
  get sampling() {
    const chosen = FIELDS.filter(({ name }) => Number.isFinite(this.values[name]));
    return Object.fromEntries(chosen.map(({ name }) => [name, this.values[name]]));
  }

  /** The form; numbers that make no sense are marked and not used. */
  form() {
    const system = h("textarea", { id: "system", rows: 3, placeholder: "You are a helpful assistant." });
    system.value = this.values.system;
    system.addEventListener("input", () => this.set("system", system.value));
    const probabilities = h("input", { type: "checkbox", id: "probabilities", checked: this.values.probabilities });
    probabilities.addEventListener("change", () => this.set("probabilities", probabilities.checked));
    return h("form", { class: "settings", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
      h("label", { for: "system", text: "System prompt" }), system,
      h("div", { class: "numbers" }, ...FIELDS.map((field) => this._number(field))),
      h("label", { class: "check" }, probabilities, "Probabilities and alternatives of every token"));
  }

  /** The server's defaults, where nothing else was chosen. @param {Record<string, any>} params */
  showDefaults(params) {
    for (const { name } of FIELDS) {
      const input = /** @type {HTMLInputElement | null} */ (document.getElementById(`set-${name}`));
      if (input && Number.isFinite(params[name])) {
        const unset = name === "seed" || params[name] < 0;
        input.placeholder = unset ? "any" : String(Math.round(params[name] * 1000) / 1000);
      }
    }
  }

  /** @param {typeof FIELDS[number]} field */
  _number({ name, label, min, max, step }) {
    const input = h("input", { id: `set-${name}`, type: "number", min, max, step, inputmode: "decimal" });
    input.value = this.values[name] ?? "";
    input.addEventListener("input", () => {
      this.set(name, input.value !== "" && input.checkValidity() ? Number(input.value) : null);
    });
    return h("div", null, h("label", { for: `set-${name}`, text: label }), input);
  }
}

function read() {
  try {
    return JSON.parse(localStorage.getItem(STORED) ?? "{}");
  } catch {
    return {};
  }
}
