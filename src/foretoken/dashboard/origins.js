// Who said a token: a colour and a pattern for each drafter, the same everywhere on the page.

import { h } from "./dom.js";

export const MODEL = "model";

/** Okabe and Ito's colours, each with a line of its own: neither is needed to tell two drafters apart. */
export const STYLES = [
  { light: "#0072b2", dark: "#56b4e9", dash: [] },
  { light: "#d55e00", dark: "#ff9d5c", dash: [2, 3] },
  { light: "#007a59", dark: "#29c296", dash: [8, 4] },
  { light: "#a8487a", dark: "#e39cc2", dash: [10, 3, 2, 3] },
  { light: "#8a6100", dark: "#e6b133", dash: [4, 4] },
  { light: "#5d6b00", dark: "#f0e442", dash: [12, 4] },
  { light: "#5b6470", dark: "#a2abb6", dash: [1, 2] },
];

/** @type {string[]} */
let drafters = [];

/** @param {string[]} names as the server lists them: the order decides the colours */
export function setDrafters(names) {
  drafters = [...names];
}

/** @param {string} origin @returns {number} which style an origin has */
export function styleOf(origin) {
  if (!drafters.includes(origin)) drafters.push(origin);
  return drafters.indexOf(origin) % STYLES.length;
}

/** @param {string} origin @returns {string} the classes of a token */
export function originClass(origin) {
  return origin === MODEL ? "token" : `token guessed origin-${styleOf(origin)}`;
}

/** @param {string} origin @returns {string} */
export function colourOf(origin) {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if (origin === MODEL) return dark ? "#e7eaee" : "#1b1f24";
  return STYLES[styleOf(origin)][dark ? "dark" : "light"];
}

/** @param {string} origin */
export function words(origin) {
  return origin === MODEL ? "thought by the model" : `guessed by ${origin}`;
}

/** @param {Iterable<string>} seen the origins that occur */
export function legend(seen) {
  const guessed = [...new Set(seen)].filter((origin) => origin !== MODEL).sort();
  const entry = (/** @type {string} */ origin) =>
    h("li", null, h("span", { class: originClass(origin), text: "abc" }), ` ${words(origin)}`);
  return h("ul", { class: "legend", "aria-label": "What the colours mean" }, ...[MODEL, ...guessed].map(entry));
}
