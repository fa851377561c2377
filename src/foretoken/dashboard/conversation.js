// A conversation is a tree: to edit or to ask again is to grow another branch beside the first.

import { Answer } from "./answer.js";

/**
 * @typedef {object} Message
 * @property {"user" | "assistant"} role
 * @property {string} text what the user wrote
 * @property {Answer | null} answer what the model said
 * @property {Message | null} parent
 * @property {Message[]} children
 * @property {number} chosen which child is shown
 */

export class Conversation {
  constructor() {
    /** @type {Message} */
    this.root = message("user", "", null);
  }

  /** @returns {Message[]} what is shown, first to last */
  get path() {
    const found = [];
    for (let at = this.root; at.children.length; found.push(at)) at = at.children[at.chosen];
    return found;
  }

  /** @returns {Message} the last message shown, or the root */
  get end() {
    return this.path.at(-1) ?? this.root;
  }

  /**
   * Say something after a message, beside what was said there before.
   * @param {Message} parent
   * @param {"user" | "assistant"} role
   * @param {string} text
   */
  add(parent, role, text) {
    const added = message(role, text, parent);
    parent.children.push(added);
    parent.chosen = parent.children.length - 1;
    return added;
  }

  /** @param {Message} one @param {number} by */
  choose(one, by) {
    const parent = /** @type {Message} */ (one.parent);
    parent.chosen = Math.max(0, Math.min(parent.children.length - 1, parent.chosen + by));
  }

  /** @param {Message} last @returns {{role: string, content: string}[]} what the server is asked, up to a message */
  messages(last) {
    const found = [];
    for (let at = /** @type {Message | null} */ (last); at && at !== this.root; at = at.parent) {
      found.unshift({ role: at.role, content: at.answer ? at.answer.content : at.text });
    }
    return found;
  }
}

/** @param {"user" | "assistant"} role @param {string} text @param {Message | null} parent @returns {Message} */
function message(role, text, parent) {
  return { role, text, answer: role === "assistant" ? new Answer() : null, parent, children: [], chosen: 0 };
}
