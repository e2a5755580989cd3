// The messages that this node holds for streams, filtered. They are fetched while the section is open.

import { byId, element, say } from "./dom.js";
import { followEvents } from "./feed.js";
import { clock, number } from "./format.js";

const HELD_MAX = 1000;
const SHOWN_MAX = 100;
const PAYLOAD_MAX = 2000;
const FILTERS = ["site", "sender", "key", "number"];
const held = [];
let following = null;
let drawing = null;

function bytesOf(about) {
  if (about.base64 === undefined) return new TextEncoder().encode(about.text);
  return Uint8Array.from(atob(about.base64), (character) => character.charCodeAt(0));
}

function cut(text) {
  return text.length > PAYLOAD_MAX ? `${text.slice(0, PAYLOAD_MAX)} … (${number(text.length)} characters)` : text;
}

function payload(about, format) {
  if (format === "hex") return cut([...bytesOf(about).slice(0, PAYLOAD_MAX)].map((byte) => byte.toString(16).padStart(2, "0")).join(" "));
  const text = about.text ?? new TextDecoder().decode(bytesOf(about));
  if (format === "text") return cut(text);
  try {
    return cut(JSON.stringify(JSON.parse(text), null, 2));
  } catch {
    return `${cut(text)} (no JSON)`;
  }
}

function matches({ from, site, id, key }, wanted) {
  const values = { site, sender: from, key: key ?? "", number: String(id[3]) };
  return FILTERS.every((name) => !wanted[name] || (name === "number" ? values[name] === wanted[name] : values[name].includes(wanted[name])));
}

function draw() {
  drawing = null;
  const wanted = Object.fromEntries(FILTERS.map((name) => [name, byId(`message-${name}`).value.trim()]));
  const found = held.filter((about) => matches(about, wanted));
  say(byId("browser-note"), `${number(found.length)} of ${number(held.length)} messages; the newest first, at most ${SHOWN_MAX}.`);
  const rows = found.slice(-SHOWN_MAX).reverse().map((about) => element("tr", {},
    ...[clock(about.time), about.site, about.from, about.key ?? "", number(about.id[3])].map((text) => element("td", {}, text)),
    element("td", {}, element("pre", {}, payload(about, byId("message-format").value)))));
  byId("messages").replaceChildren(...rows);
}

function drawSoon() {
  drawing ??= setTimeout(draw, 200);
}

function hear(kind, about) {
  if (kind !== "message") return;
  held.push(about);
  if (held.length > HELD_MAX) held.shift();
  drawSoon();
}

export function startBrowser() {
  byId("browser").addEventListener("toggle", () => {
    following?.abort();
    following = null;
    if (!byId("browser").open) return;
    held.length = 0;
    following = new AbortController();
    followEvents(hear, { messages: true, signal: following.signal, refuse: (why) => say(byId("browser-note"), why) });
    drawSoon();
  });
  for (const name of [...FILTERS, "format"]) byId(`message-${name}`).addEventListener("input", drawSoon);
}
