// One answer as it grows: its text, its tokens with their places in the text, its steps.

/** @typedef {import("./api.js").Token} Token @typedef {import("./api.js").Step} Step */

export class Answer {
  constructor() {
    this.content = "";
    this.thought = "";
    /** Everything said, token by token, marks of thoughts included. */
    this.raw = "";
    /** @type {Token[]} */
    this.tokens = [];
    /** Where each token's text ends in `raw`. @type {number[]} */
    this.ends = [];
    /** The step each token was decided in. @type {number[]} */
    this.stepOf = [];
    /** @type {Step[]} */
    this.steps = [];
    /** Everyone who said something. @type {Set<string>} */
    this.origins = new Set();
    /** @type {any} */ this.usage = null;
    /** @type {any} */ this.timings = null;
    this.finish = "";
    this.error = "";
    this.request = "";
    this._decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  }

  /** @param {Step | null} step @param {Token[]} tokens */
  takeStep(step, tokens) {
    if (step) this.steps.push(step);
    for (const token of tokens) {
      const bytes = token.bytes ? new Uint8Array(token.bytes) : new TextEncoder().encode(token.text);
      // A character that is spread over several tokens belongs to the last of them.
      this.raw += this._decoder.decode(bytes, { stream: true });
      this.tokens.push(token);
      this.origins.add(token.origin);
      this.ends.push(this.raw.length);
      this.stepOf.push(this.steps.length - 1);
    }
  }

  /** There are no more tokens: a character that was begun and never ended is shown as such. */
  close() {
    this.raw += this._decoder.decode();
    if (this.ends.length) this.ends[this.ends.length - 1] = this.raw.length;
  }

  /** @param {{content?: string | null, reasoning_content?: string | null}} delta */
  takeDelta(delta) {
    this.content += delta.content ?? "";
    this.thought += delta.reasoning_content ?? "";
  }

  /** @param {number} index @returns {string} the token's own part of the text */
  textOf(index) {
    return this.raw.slice(index ? this.ends[index - 1] : 0, this.ends[index]);
  }

  /** Where the thought and the content begin in `raw`; -1 where they cannot be found. */
  places() {
    const thought = this.thought ? this.raw.indexOf(this.thought) : 0;
    const content = this.raw.indexOf(this.content, Math.max(0, thought + this.thought.length));
    return { thought, content };
  }

  /** @param {number} offset @returns {number} the token that says the character at this place of `raw` */
  tokenAt(offset) {
    let low = 0;
    let high = this.ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ends[middle] <= offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  get guessed() {
    return this.tokens.reduce((n, token) => n + (token.origin === "model" ? 0 : 1), 0);
  }

  /** Milliseconds of the steps from the second on: the first read the prompt. */
  get generationMs() {
    return this.timings?.predicted_ms ?? this.steps.slice(1).reduce((sum, step) => sum + step.ms, 0);
  }

  /** Tokens per second over the last steps, for a number that moves. */
  get pace() {
    let tokens = 0;
    let ms = 0;
    for (let at = this.steps.length - 1; at > 0 && ms < 1000; at--) {
      tokens += this.steps[at].tokens;
      ms += this.steps[at].ms;
    }
    return ms ? (tokens / ms) * 1000 : null;
  }
}
