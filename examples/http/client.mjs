// A client in JavaScript, for Node 18 or newer, without packages:
//
//   node client.mjs post PREFIX URL...    publishes each line of standard input, once
//   node client.mjs follow URL...         prints the text of each message, once
//
// Name several nodes, best of one site: when one does not answer the next one is asked. RELAY_TOKEN holds the token of nodes that
// want one.

import { createInterface } from "node:readline";

const PAUSE_MS = 200;
const KEYS_MAX = 65_536;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class RelayClient {
  #urls;
  #headers;
  #reached = new Map(); // sender -> the number of its last message
  #keys = new Set();

  constructor(urls, token = "") {
    this.#urls = [...urls]; // the first one is asked
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  // Publishes a message. It may be called again with the same key, also by another process: everybody is shown it once.
  async post(text, key) {
    for (;;) {
      const url = this.#urls[0];
      const headers = { ...this.#headers, "Idempotency-Key": key, "Content-Type": "text/plain" };
      const answer = await fetch(`${url}/messages`, { method: "POST", body: text, headers }).catch(() => null);
      const said = await answer?.text().catch(() => null); // a node that dies may end in the middle of its answer
      if (answer?.status === 200 && said) return JSON.parse(said);
      if (said && answer.status < 500 && answer.status !== 429) throw new Error(`${answer.status}: ${said}`);
      this.#urls.push(this.#urls.shift());
      await pause(1000 * Number(answer?.headers.get("retry-after") ?? 0) || PAUSE_MS);
    }
  }

  // All events, of one node after the other; messages that were there before are left out.
  async *events() {
    let last = "";
    for (;;) {
      const url = this.#urls[0];
      const headers = last ? { ...this.#headers, "Last-Event-ID": last } : this.#headers;
      try {
        const answer = await fetch(`${url}/events?from=oldest`, { headers });
        if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
        for await (const { kind, id, about } of parse(answer.body)) {
          last = id;
          if (kind !== "message" || this.#isNew(about)) yield { kind, about };
        }
      } catch (error) {
        console.error(`${url}: ${error.cause?.code ?? error.message}`);
      }
      this.#urls.push(this.#urls.shift());
      await pause(PAUSE_MS);
    }
  }

  // A message with a key is known by that, since two nodes may show different copies of it; others are known by their ids.
  #isNew({ id: [site, origin, scope, number], key }) {
    const sender = `${site} ${origin} ${scope}`;
    if (key === undefined) {
      if (number <= (this.#reached.get(sender) ?? 0)) return false;
      this.#reached.set(sender, number);
      return true;
    }
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    if (this.#keys.size > KEYS_MAX) this.#keys.delete(this.#keys.values().next().value);
    return true;
  }
}

async function* parse(body) {
  let text = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (text + chunk).split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const fields = Object.fromEntries(block.split("\n").map((line) => line.split(/: (.*)/s)));
      if (fields.data) yield { kind: fields.event, id: fields.id, about: JSON.parse(fields.data) };
    }
  }
}

async function main([what, ...rest]) {
  const token = process.env.RELAY_TOKEN;
  if (what === "post") {
    const [prefix, ...urls] = rest;
    const client = new RelayClient(urls, token);
    let number = 0;
    for await (const line of createInterface({ input: process.stdin })) await client.post(line, `${prefix}-${(number += 1)}`);
    return;
  }
  for await (const { kind, about } of new RelayClient(rest, token).events()) {
    if (kind === "message") console.log(about.text ?? about.base64);
    if (kind === "gap") console.error(`gap: ${JSON.stringify(about)}`);
  }
}

await main(process.argv.slice(2));
