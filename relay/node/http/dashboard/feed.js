// What the node tells: its status once a second, and its events as a stream. With the token, where it wants one.

import { askToken, storedToken } from "./token.js";

const TIMEOUT_MS = 3000;
const PAUSE_MS = 500;

export class NotNow extends Error {}
export class Refused extends Error {}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function ask(path, options = {}) {
  for (;;) {
    const token = storedToken();
    const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await fetch(path, { ...options, headers, cache: "no-store" });
    if (answer.status !== 401) {
      if (answer.status === 403) throw new Refused((await answer.json()).error);
      if (!answer.ok) throw new NotNow(`the node answers ${answer.status}`);
      return answer;
    }
    await askToken(token);
  }
}

export async function fetchStatus() {
  return (await ask("status", { signal: AbortSignal.timeout(TIMEOUT_MS) })).json();
}

// Hands every event to `hear(kind, about)`, until aborted or refused: after a break it continues behind the last one.
export async function followEvents(hear, { messages = false, signal, refuse = () => {} } = {}) {
  let last = "";
  while (!signal?.aborted) {
    try {
      const headers = last ? { "Last-Event-ID": last } : {};
      const answer = await ask(`events?messages=${messages ? "yes" : "no"}&from=oldest`, { headers, signal });
      for await (const event of parse(answer.body)) {
        last = event.id;
        hear(event.event, JSON.parse(event.data));
      }
    } catch (error) {
      if (error instanceof Refused) {
        refuse(error.message);
        return;
      }
      // The node is gone or restarts; the status shows it.
    }
    await pause(PAUSE_MS);
  }
}

// The events of a stream. `EventSource` would do this, but can send no token.
async function* parse(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (text + value).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s).slice(0, 2)));
      if (fields.data) yield fields;
    }
  }
}
