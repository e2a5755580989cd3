// A client in JavaScript, for Node 18 or newer, without packages:
//
//   node client.mjs post PREFIX URL...    publishes each line of standard input, once
//   node client.mjs follow URL...         prints the text of each message, once
//
// Name several nodes, best of one site: when one does not answer the next one is asked. RELAY_TOKEN holds the token of nodes that
// want one. A message that no node has taken for half an hour, or RELAY_GIVE_UP_S seconds, is given up.

import { createInterface } from "node:readline";

const PAUSE_MS = 200;
const KEYS_MAX = 65_536;
const GIVE_UP_MS = 1_800_000; // members know a key for an hour, and would show again what is posted later
const ATTEMPT_MS = 20_000; // a node answers or refuses sooner
const SILENCE_MS = 1000 * Number(process.env.RELAY_SILENCE_S ?? 30); // a stream has a comment every 15 s

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Aborts a request after a silence. Fetch never ends its wait when a connection dies at some points of its life, and without a
// timer the program would then exit with code 13.
function timeLimit(ms) {
  const controller = new AbortController();
  const abort = () => controller.abort(new Error(`nothing heard for ${ms / 1000} s`));
  let timer = setTimeout(abort, ms);
  const clear = () => clearTimeout(timer);
  const restart = () => {
    clear();
    timer = setTimeout(abort, ms);
  };
  return { signal: controller.signal, clear, restart };
}

export class RelayClient {
  #urls;
  #headers;
  #giveUpMs;
  #reached = new Map(); // sender -> the number of its last message
  #keys = new Set();

  constructor(urls, token = "", giveUpMs = GIVE_UP_MS) {
    this.#urls = [...urls]; // the first one is asked
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#giveUpMs = giveUpMs;
  }

  // Publishes a message. It may be called again with the same key, also by another process: everybody is shown it once.
  async post(text, key) {
    const ends = Date.now() + this.#giveUpMs;
    for (;;) {
      const url = this.#urls[0];
      const headers = { ...this.#headers, "Idempotency-Key": key, "Content-Type": "text/plain" };
      const limit = timeLimit(Math.min(ATTEMPT_MS, this.#giveUpMs / 10));
      const request = { method: "POST", body: text, headers, signal: limit.signal };
      const answer = await fetch(`${url}/messages`, request).catch(() => null);
      const said = await answer?.text().catch(() => null); // a node that dies may end in the middle of its answer
      limit.clear();
      if (answer?.status === 200 && said) return JSON.parse(said);
      const isLater = said == null || answer.status >= 500 || answer.status === 408 || answer.status === 429;
      if (!isLater) throw new Error(`${answer.status}: ${said}`);
      const wait = 1000 * Number(answer?.headers.get("retry-after") ?? 0) || PAUSE_MS;
      if (Date.now() + wait >= ends) throw new Error(`${key}: not taken in time, at last ${answer?.status ?? "no answer"}`);
      this.#urls.push(this.#urls.shift());
      await pause(wait);
    }
  }

  // All events, of one node after the other; messages that were there before are left out.
  async *events() {
    let last = "";
    for (;;) {
      const url = this.#urls[0];
      const headers = last ? { ...this.#headers, "Last-Event-ID": last } : this.#headers;
      const limit = timeLimit(SILENCE_MS);
      try {
        const answer = await fetch(`${url}/events?from=oldest`, { headers, signal: limit.signal });
        if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
        for await (const { kind, id, about } of parse(answer.body, limit.restart)) {
          last = id;
          if (kind !== "message" || this.#isNew(about, id)) yield { kind, about };
        }
      } catch (error) {
        console.error(`${url}: ${error.cause?.code ?? error.message}`);
      }
      limit.clear();
      this.#urls.push(this.#urls.shift());
      await pause(PAUSE_MS);
    }
  }

  // Messages are known by their ids, since the numbers of a sender count upwards; and by their keys, since two nodes may show
  // different copies of one.
  #isNew({ id: [site, origin, scope, number], key }, place) {
    let sender = `${site} ${origin} ${scope}`;
    if (scope === "unicast" || scope === "oob") {
      const [run, at] = place.split("-"); // to one member: numbered for each, so its node's numbers count
      [sender, number] = [run, Number(at)];
    }
    if (number <= (this.#reached.get(sender) ?? 0)) return false;
    this.#reached.set(sender, number);
    if (key === undefined) return true;
    if (this.#keys.has(key)) return false;
    this.#keys.add(key);
    if (this.#keys.size > KEYS_MAX) this.#keys.delete(this.#keys.values().next().value);
    return true;
  }
}

async function* parse(body, heard) {
  let text = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    heard();
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
    const client = new RelayClient(urls, token, 1000 * Number(process.env.RELAY_GIVE_UP_S ?? 0) || GIVE_UP_MS);
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
