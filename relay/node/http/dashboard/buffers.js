// Everything that can fill up in this node, against its bound.

import { byId, element, say } from "./dom.js";
import { bytes, number } from "./format.js";

// Those that people should know, with what they hold; the rest is among all queues.
const MAIN = {
  "stack.relay.buffer_bytes": "Held for other sites",
  "stack.relay.buffer_entries": "Held for other sites, batches",
  "stack.batching.credit_bytes": "Sent and not delivered",
  "stack.flow_control.backlog_bytes": "Delivered and not taken",
  "stack.relay.waiting_bytes": "From other sites, waiting",
  "http.events_bytes": "Events for streams",
  "message_keys": "Keys of messages",
};

class Row {
  constructor(title) {
    this.meter = element("meter", { min: 0, max: 1, low: 0.5, high: 0.8, optimum: 0, "aria-label": `${title}, used` });
    this.cells = [0, 1, 2].map(() => element("td"));
    this.row = element("tr", {}, element("th", { scope: "row" }, title), element("td", {}, this.meter), ...this.cells);
  }

  show(queue) {
    const format = queue.queue.endsWith("bytes") ? bytes : number;
    this.meter.hidden = queue.max === null;
    if (queue.max !== null) this.meter.value = queue.max ? queue.now / queue.max : 0;
    [queue.now, queue.high, queue.max].forEach((value, at) => say(this.cells[at], value === null ? "–" : format(value)));
  }
}

export class Buffers {
  constructor() {
    this.rows = new Map();
  }

  show(queues) {
    for (const queue of queues) {
      if (MAIN[queue.queue]) this.row("buffers", queue.queue, MAIN[queue.queue]).show(queue);
      this.row("queues", queue.queue, queue.queue.replace(/^stack\./, "")).show(queue);
    }
  }

  row(where, name, title) {
    const key = `${where} ${name}`;
    if (!this.rows.has(key)) {
      const made = new Row(title);
      this.rows.set(key, made);
      byId(where).append(made.row);
    }
    return this.rows.get(key);
  }
}
