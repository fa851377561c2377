// Server-sent events from a fetch: an EventSource could not send the key.

/**
 * @param {Response} response
 * @returns {AsyncGenerator<{event: string, data: string}>}
 */
export async function* events(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split("\n\n");
      rest = /** @type {string} */ (blocks.pop());
      for (const block of blocks) {
        const found = parse(block);
        if (found) yield found;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** @param {string} block */
function parse(block) {
  let event = "";
  const data = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("data: ")) data.push(line.slice(6));
    else if (line.startsWith("event: ")) event = line.slice(7);
  }
  return data.length ? { event, data: data.join("\n") } : null;
}
