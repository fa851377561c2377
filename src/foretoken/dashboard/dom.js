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

/** Write a text where it is not written yet: what does not change need not be drawn. @param {Element} element @param {string} text */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {Element} element @param {string} name @param {string} value */
export function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/**
 * Elements of one kind, made once for each name and kept as long as the names are the same.
 * @template {{element: Element}} Part
 */
export class Rows {
  /** @param {Element} parent @param {(name: string) => Part} make */
  constructor(parent, make) {
    this._parent = parent;
    this._make = make;
    this._names = "";
    /** @type {Part[]} */
    this._parts = [];
  }

  /** @param {string[]} names @returns {Part[]} */
  of(names) {
    const joined = names.join("\n");
    if (joined !== this._names) {
      this._names = joined;
      this._parts = names.map(this._make);
      fill(this._parent, ...this._parts.map((part) => part.element));
    }
    return this._parts;
  }
}

/**
 * Shows the latest of what it is told where somebody sees it; whoever scrolls there later finds the latest. The first is
 * always shown, so that the place has its size.
 * @template News
 */
export class InView {
  /** @param {Element} place @param {(news: News) => void} show */
  constructor(place, show) {
    this._show = show;
    this._filled = this._seen = false;
    /** @type {News | null} */
    this._news = null;
    new IntersectionObserver((all) => {
      this._seen = all[all.length - 1].isIntersecting;
      this._try();
    }).observe(place);
  }

  /** @param {News} news */
  take(news) {
    this._news = news;
    this._try();
  }

  _try() {
    if (this._news === null || (this._filled && !this._seen)) return;
    const news = this._news;
    this._news = null;
    this._filled = true;
    this._show(news);
  }
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

/** Making one takes a browser far longer than using it. @type {Intl.NumberFormat[]} */
const formats = [];

/** @param {number | null | undefined} value @param {number} [digits] */
export function number(value, digits = 0) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  formats[digits] ??= new Intl.NumberFormat("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });
  return formats[digits].format(value);
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
