// The dashboard of one node: what it says of itself, of its site and of the others. Nothing here asks any other machine.

import { startBrowser } from "./browser.js";
import { Buffers } from "./buffers.js";
import { byId, definitions, element, redraw, say } from "./dom.js";
import { fetchStatus, followEvents, Refused } from "./feed.js";
import { duration, number } from "./format.js";
import { Links } from "./links.js";
import { showSites } from "./sites.js";
import { TimeLine } from "./timeline.js";
import { showTopology } from "./topology.js";

const INTERVAL_MS = 1000;
const links = new Links();
const buffers = new Buffers();
const timeline = new TimeLine();
let answered = null;
let rates = {};
let refusal = "";
let asking = false;
let again = false;

function show(status) {
  document.title = `${status.name} of ${status.site} · Relay`;
  say(byId("node"), `seen from ${status.name} of ${status.site}, version ${status.version}`);
  byId("insecure").hidden = status.secure;
  showVerdict(status.verdict.state, status.verdict.reasons);
  showDashboards(status.dashboards);
  showTopology(status, rates);
  showSites(status);
  buffers.show(status.queues);
  showKeys(status);
  showCounts(status);
}

function showVerdict(state, reasons) {
  const where = byId("verdict");
  where.className = `verdict ${state}`;
  say(byId("verdict-state"), state);
  redraw(byId("reasons"), reasons, () => reasons.map(({ what, alert }) => element("li", {}, alert ? `${what} (${alert})` : what)));
}

function showDashboards(dashboards) {
  const links = Object.entries(dashboards).filter(([, url]) => /^https?:/.test(url));
  byId("dashboards").hidden = !links.length;
  redraw(byId("dashboard-list"), links, () => links.map(([name, url]) => element("li", {}, element("a", { href: url }, name))));
}

function showKeys(status) {
  const expires = status.statistics.bridge?.certificate_expires_s ?? null;
  const certificate = expires === null ? "none" : expires < 0 ? `ended ${duration(-expires)} ago` : `valid for ${duration(expires)} more`;
  const ring = status.keys;
  definitions(byId("keys"), [
    ["Datagrams", ring ? `sealed with key ${ring.in_use}` : "not sealed"],
    ["Keys", ring ? `${ring.known.join(", ")}; changed ${duration(ring.age_s)} ago` : "none"],
    ["Certificate of the site", certificate],
  ]);
}

function showCounts(status) {
  const { messages } = status;
  const delivered = Object.entries(messages.delivered).map(([site, count]) => `${site} ${number(count)}`);
  definitions(byId("counts"), [
    ["State", status.state],
    ["Role", status.role === "relay" ? `relays to ${status.relays_to.join(", ")}` : status.role],
    ["Up for", duration(status.uptime_s)],
    ["Views", number(status.views)],
    ["Takeovers", number(status.takeovers)],
    ["Messages sent", number(messages.sent)],
    ["Delivered, by site", delivered.join(", ") || "none"],
    ["Lost in gaps", number(messages.gaps)],
    ["Process", String(status.pid)],
  ]);
}

function showConnection() {
  const silent = answered === null ? null : (performance.now() - answered) / 1000;
  const isLost = silent === null || silent > 3;
  const where = byId("connection");
  where.className = isLost ? "lost" : "live";
  say(where, isLost ? refusal || "no answer: what is shown is old" : "live");
  document.querySelector("main").classList.toggle("stale", isLost && silent !== null);
  if (isLost && silent !== null) showVerdict("down", [{ what: `the node has not answered for ${duration(silent)}`, alert: "RelayNodeDown" }]);
}

// Asks for the status; while an answer is awaited, once more after it.
async function look(isSample) {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  refusal = "";
  const status = await fetchStatus().catch((error) => {
    if (error instanceof Refused) refusal = error.message;
    return null; // `showConnection` says for how long there has been no answer
  });
  asking = false;
  if (status) {
    answered = performance.now();
    if (isSample) rates = links.show(status, answered);
    show(status);
  }
  showConnection();
  if (again) {
    again = false;
    look(false);
  }
}

function tick() {
  if (!document.hidden) look(true);
}

startBrowser();
tick();
setInterval(tick, INTERVAL_MS);
document.addEventListener("visibilitychange", tick);
followEvents((kind, about) => {
  timeline.hear(kind, about);
  if (kind !== "gap") look(false);
});
