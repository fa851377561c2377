// Everything the page asks of the server it came from.

import { events } from "./sse.js";

const KEY = "foretoken.key";

/** An answer that is an error; `message` is the server's own reason. */
export class ApiFailure extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** @type {() => void} */
let keyWanted = () => {};

/** @param {() => void} listener called whenever the server wants a key that it was not given */
export function onKeyWanted(listener) {
  keyWanted = listener;
}

export function key() {
  return sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} value */
export function setKey(value) {
  sessionStorage.setItem(KEY, value);
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 */
async function ask(path, options = {}) {
  const headers = { accept: "application/json", ...(key() ? { authorization: `Bearer ${key()}` } : {}) };
  const response = await fetch(path, { ...options, headers: { ...headers, ...options.headers } });
  if (response.ok) return response;
  if (response.status === 401) keyWanted();
  throw new ApiFailure(response.status, await reason(response));
}

/** @param {Response} response */
async function reason(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `the server answered ${response.status}`;
  }
}

/** @param {string} path @returns {Promise<any>} */
export async function get(path) {
  return (await ask(path)).json();
}

/** Whether the server can answer, and if not, why: never throws. */
export async function health() {
  try {
    const response = await fetch("/health");
    return { ready: response.ok, words: response.ok ? "ready" : await reason(response) };
  } catch {
    return { ready: false, words: "the server cannot be reached" };
  }
}

/**
 * @typedef {object} Token one token of an answer, as the server tells it
 * @property {number} id
 * @property {string} text
 * @property {number[]} [bytes]
 * @property {string} origin
 * @property {boolean} [ends]
 * @property {number} [logprob]
 * @property {{id: number, text: string, logprob: number}[]} [top]
 *
 * @typedef {object} Step
 * @property {number} width
 * @property {number} drafted
 * @property {number} accepted
 * @property {number} replayed
 * @property {number} ms
 * @property {string} drafter
 * @property {number} tokens
 *
 * @typedef {object} ChatEvents
 * @property {(request: string) => void} [opened]
 * @property {(step: Step | null, tokens: Token[]) => void} [step]
 * @property {(delta: {content?: string, reasoning_content?: string}) => void} [delta]
 * @property {(finish: string, timings: any) => void} [finish]
 * @property {(usage: any) => void} [usage]
 */

/**
 * Ask for a chat completion as a stream, with the details of every step.
 * @param {Record<string, any>} body
 * @param {ChatEvents} on
 * @param {AbortSignal} signal
 */
export async function chat(body, on, signal) {
  const whole = { ...body, stream: true, stream_options: { include_usage: true }, return_speculation: true };
  const response = await ask("/v1/chat/completions", {
    method: "POST",
    body: JSON.stringify(whole),
    headers: { "content-type": "application/json", accept: "text/event-stream" },
    signal,
  });
  on.opened?.(response.headers.get("x-request-id") ?? "");
  for await (const { data } of events(response)) {
    if (data === "[DONE]") break;
    const event = JSON.parse(data);
    if (event.error) throw new ApiFailure(event.error.code ?? 500, event.error.message);
    if (event.type === "foretoken.step") on.step?.(event.step, event.tokens);
    const choice = event.choices?.[0];
    if (choice?.delta) on.delta?.(choice.delta);
    if (choice?.finish_reason) on.finish?.(choice.finish_reason, event.timings);
    if (event.usage) on.usage?.(event.usage);
  }
}

/**
 * @typedef {{said?: string, lost?: string, asks?: boolean, here?: boolean, gone?: boolean}} News what the server said of
 * itself, or that it says nothing; and between tabs: who is there, I am, I am no more
 */

/**
 * Watch the server until told otherwise. A browser opens only a few connections to one server, so of all tabs with
 * the same key one has the stream, and tells the others; when it goes, the next takes over.
 * @param {(state: any) => void} take
 * @param {(words: string) => void} lost
 * @param {AbortSignal} signal
 */
export async function watch(take, lost, signal) {
  const name = `foretoken.live ${key()}`;
  const channel = new BroadcastChannel(name);
  let others = false;
  const hear = (/** @type {News} */ news) => (news.said ? take(JSON.parse(news.said)) : lost(news.lost ?? ""));
  const tell = (/** @type {News} */ news) => {
    // Telling nobody would take longer than reading the stream.
    if (others) channel.postMessage(news);
    hear(news);
  };
  const call = () => {
    others = false;
    channel.postMessage({ asks: true });
  };
  channel.onmessage = ({ data }) => {
    if (data.asks) channel.postMessage({ here: true });
    else if (data.here) others = true;
    else if (data.gone) call();
    else hear(data);
  };
  try {
    // Only pages from this machine or over https have locks; others watch for themselves.
    if (navigator.locks) {
      channel.postMessage({ here: true });
      await navigator.locks.request(name, { signal }, () => (call(), follow(tell, signal)));
    } else await follow(hear, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    channel.postMessage({ gone: true });
    channel.close();
  }
}

/** Read the stream, again and again when the server went away. @param {(news: News) => void} tell @param {AbortSignal} signal */
async function follow(tell, signal) {
  for (let pause = 500; !signal.aborted; pause = Math.min(5000, pause * 1.5)) {
    try {
      const response = await ask("/live/stream", { headers: { accept: "text/event-stream" }, signal });
      for await (const { data } of events(response)) {
        pause = 500;
        tell({ said: data });
      }
      tell({ lost: "the server closed the stream" });
    } catch (error) {
      if (signal.aborted) return;
      tell({ lost: error instanceof ApiFailure ? error.message : "the server cannot be reached" });
      if (error instanceof ApiFailure && error.status === 401) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}
