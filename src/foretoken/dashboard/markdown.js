// Markdown as elements, never as HTML, with every word still traced to the token that said it.

import { h } from "./dom.js";
import { lexer } from "./vendor/marked.js";

const LONGEST = 200_000;
const SLOWEST = 400;
const SAFE_LINK = /^(https?:\/\/|mailto:)/i;

/** @typedef {(text: string, start: number) => Node[]} Paint turns a piece of the source into nodes; start < 0: unknown */

/** Finds the pieces of one block in the source again, in order. */
class Trail {
  /** @param {string} source @param {number} start @param {number} end @param {Paint} paint */
  constructor(source, start, end, paint) {
    this.source = source;
    this.at = start;
    this.end = end;
    this.paint = paint;
  }

  /** Markup only ever leaves characters out, so each line of a text is found again at or after the last one. */
  nodes(/** @type {string} */ text) {
    /** @type {Node[]} */
    const found = [];
    const lines = text.split("\n");
    lines.forEach((line, number) => {
      const piece = number < lines.length - 1 ? `${line}\n` : line;
      if (!piece) return;
      let start = this.source.indexOf(piece, this.at);
      if (start >= 0 && start + piece.length <= this.end) this.at = start + piece.length;
      else start = -1;
      found.push(...this.paint(piece, start));
    });
    return found;
  }
}

/** A growing text, rendered block by block: only blocks that changed are built again. */
export class MarkdownView {
  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** @type {{raw: string, element: Node | null}[]} */
    this._blocks = [];
    this._tooSlow = false;
  }

  /** @param {string} source @param {Paint} paint */
  update(source, paint) {
    const began = performance.now();
    const blocks = this._tooSlow ? asItIs(source) : parse(source);
    // Some texts take a parser seconds, and this happens many times while they grow: those stay as they are.
    this._tooSlow ||= performance.now() - began > SLOWEST;
    let same = 0;
    while (same < this._blocks.length - 1 && same < blocks.length && this._blocks[same].raw === blocks[same].raw) same++;
    for (const { element } of this._blocks.splice(same)) /** @type {any} */ (element)?.remove();
    let start = blocks.slice(0, same).reduce((sum, block) => sum + block.raw.length, 0);
    for (const block of blocks.slice(same)) {
      const element = blockElement(block, new Trail(source, start, start + block.raw.length, paint));
      start += block.raw.length;
      if (element) this.root.append(element);
      this._blocks.push({ raw: block.raw, element });
    }
  }
}

/** @param {string} source @returns {any[]} */
function asItIs(source) {
  return [{ type: "plain", raw: source, text: source }];
}

/** @param {string} source @returns {any[]} */
function parse(source) {
  if (source.length > LONGEST) return asItIs(source);
  try {
    const blocks = lexer(source);
    // Tabs and the like may be rewritten: then the places would be wrong.
    return blocks.map((/** @type {any} */ block) => block.raw).join("") === source ? blocks : asItIs(source);
  } catch (error) {
    console.info("not shown as markdown:", error);
    return asItIs(source);
  }
}

/** @param {any} block @param {Trail} trail @returns {HTMLElement | null} */
function blockElement(block, trail) {
  switch (block.type) {
    case "space":
    case "def":
      return null;
    case "heading":
      return h(`h${Math.min(6, block.depth + 2)}`, null, ...inline(block.tokens, trail));
    case "paragraph":
      return h("p", null, ...inline(block.tokens, trail));
    case "text":
      return h("div", null, ...(block.tokens ? inline(block.tokens, trail) : trail.nodes(block.text)));
    case "code":
      return codeBlock(block, trail);
    case "blockquote":
      return h("blockquote", null, ...block.tokens.map((/** @type {any} */ one) => blockElement(one, trail)));
    case "list":
      return h(block.ordered ? "ol" : "ul", { start: block.ordered && block.start !== 1 ? block.start : null },
        ...block.items.map((/** @type {any} */ item) => listItem(item, trail)));
    case "table":
      return table(block, trail);
    case "hr":
      return h("hr");
    default:
      return h("p", { class: "literal" }, ...trail.nodes(block.text ?? block.raw));
  }
}

/** @param {any} item @param {Trail} trail */
function listItem(item, trail) {
  const mark = item.task && h("input", { type: "checkbox", disabled: true, checked: item.checked, "aria-label": "task" });
  const blocks = item.tokens.filter((/** @type {any} */ one) => one.type !== "checkbox");
  return h("li", null, mark, ...blocks.map((/** @type {any} */ one) => blockElement(one, trail)));
}

/** @param {any} block @param {Trail} trail */
function codeBlock(block, trail) {
  const code = h("code", null, ...trail.nodes(block.text));
  const copy = h("button", { type: "button", class: "quiet", text: "copy", "aria-label": "Copy this code" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(block.text);
      copy.textContent = "copied";
    } catch {
      getSelection()?.selectAllChildren(code);
      copy.textContent = "press Ctrl+C";
    }
    setTimeout(() => (copy.textContent = "copy"), 1500);
  });
  const head = h("div", { class: "code-head" }, h("span", { text: (block.lang ?? "").slice(0, 40) || "text" }), copy);
  return h("div", { class: "code-block" }, head, h("pre", { tabindex: 0, role: "region", "aria-label": "Code" }, code));
}

/** @param {any} block @param {Trail} trail */
function table(block, trail) {
  const row = (/** @type {any[]} */ cells, /** @type {string} */ tag) =>
    h("tr", null, ...cells.map((cell) => h(tag, { scope: tag === "th" ? "col" : null }, ...inline(cell.tokens, trail))));
  const body = block.rows.map((/** @type {any[]} */ cells) => row(cells, "td"));
  const whole = h("table", null, h("thead", null, row(block.header, "th")), h("tbody", null, ...body));
  return h("div", { class: "wide", tabindex: 0, role: "region", "aria-label": "Table" }, whole);
}

/** @param {any[]} tokens @param {Trail} trail @returns {Node[]} */
function inline(tokens, trail) {
  return (tokens ?? []).flatMap((token) => inlineNodes(token, trail));
}

/** @param {any} token @param {Trail} trail @returns {Node[]} */
function inlineNodes(token, trail) {
  switch (token.type) {
    case "strong":
    case "em":
    case "del":
      return [h(token.type, null, ...inline(token.tokens, trail))];
    case "codespan":
      return [h("code", null, ...trail.nodes(token.text))];
    case "br":
      return [h("br")];
    case "link":
      return link(token, trail);
    case "image":
      // Nothing is fetched because a model names it.
      return trail.nodes(token.text || token.raw);
    case "text":
      return token.tokens ? inline(token.tokens, trail) : trail.nodes(token.text);
    default:
      return trail.nodes(token.type === "escape" ? token.text : token.raw);
  }
}

/** @param {any} token @param {Trail} trail */
function link(token, trail) {
  const children = inline(token.tokens, trail);
  if (!SAFE_LINK.test(token.href)) return [h("span", { class: "unsafe-link", title: "not a web address" }, ...children)];
  return [h("a", { href: token.href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children)];
}
