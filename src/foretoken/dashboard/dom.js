// Elements without HTML strings: whatever a model says only ever becomes text.

/**
 * @param {string} tag
 * @param {Record<string, any> | null} [props] attributes; `on...` are listeners, `class` and `text` are what they say
 * @param {...(Node | string | null | undefined | false)} children
 * @returns {any} the element
 */
export function h(tag, props, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

/**
 * Replace what is in an element; children that are not there are left out.
 * @param {Element} element
 * @param {...(Node | string | null | undefined | false)} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
}

/** @param {(Node | string | null | undefined | false)[]} children @returns {(Node | string)[]} */
function present(children) {
  return /** @type {(Node | string)[]} */ (children.filter((child) => child || child === ""));
}

/** @param {string} tag @param {Record<string, any>} [attributes] @param {...Node} children @returns {any} */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes ?? {})) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** @param {string} id @returns {any} */
export function byId(id) {
  return document.getElementById(id);
}

/** @param {number | null | undefined} value @param {number} [digits] */
export function number(value, digits = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return value.toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
}

/** Milliseconds as a person would say them. @param {number | null | undefined} ms */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const size = Math.abs(ms);
  if (size < 10) return `${number(ms, 2)} ms`;
  if (size < 1000) return `${number(ms)} ms`;
  return size < 100_000 ? `${number(ms / 1000, size < 10_000 ? 2 : 1)} s` : `${number(ms / 60_000, 1)} min`;
}

/** @param {number} part @param {number} whole */
export function percent(part, whole) {
  return whole ? `${number((100 * part) / whole)} %` : "–";
}

/** @param {number} bytes */
export function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) [bytes, at] = [bytes / 1024, at + 1];
  return `${number(bytes, at && bytes < 100 ? 1 : 0)} ${units[at]}`;
}
