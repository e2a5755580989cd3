// The sites and the links between this one and the others: who relays, in which direction how much, and how late.

import { byId, drawn, element, redraw } from "./dom.js";
import { duration, plural, rate } from "./format.js";
import { HIGH_LAG_S } from "./links.js";
import { relays, sitesOf } from "./sites.js";

function box(status, site, names) {
  const lines = [`${relays(status, site, names[0], 0) ? "relay" : "coordinator"} ${names[0] ?? "not known"}`, names[1] ? `next ${names[1]}` : "no next in line", plural(names.length, "member")];
  return element("div", { class: `site-box${names.length > 1 ? "" : " degraded"}` }, element("strong", {}, site), ...lines.map((line) => element("span", {}, line)));
}

function arrow(kind, isBack, text) {
  const shape = isBack ? "M8 1 1 5l7 4M1 5h118" : "m112 1 7 4-7 4M119 5H1";
  const line = drawn("svg", { class: "arrow", viewBox: "0 0 120 10", preserveAspectRatio: "none", "aria-hidden": "true" }, drawn("path", { d: shape }));
  return element("p", { class: kind }, element("span", {}, text), line);
}

function stateOf(link, down, role) {
  if (link?.offline) return ["quiet", "switched offline"];
  if (link?.down || down) return ["bad", "down"];
  if (link?.linked) return ["good", "linked"];
  return role === "member" ? ["good", "reached"] : ["bad", "no link"];
}

export function showTopology(status, rates) {
  const { site: home, role } = status;
  const sites = sitesOf(status);
  const rows = Object.keys(sites).filter((site) => site !== home).sort().map((site) => {
    const link = status.links.find((each) => each.site === site);
    const down = Boolean(status.global_view?.down.includes(site));
    const [kind, state] = stateOf(link, down, role);
    const there = `${home} → ${site} ${rate(rates[home] ?? 0)}, lag ${duration(link?.behind_s ?? 0)}`;
    const ahead = kind === "good" && link?.behind_s > HIGH_LAG_S ? "warn" : kind;
    return { site, kind, ahead, state, there, back: `${site} → ${home} ${rate(rates[site] ?? 0)}` };
  });
  redraw(byId("topology-picture"), [rows, sites, home, relays(status, home, sites[home]?.[0], 0)], () => [
    element("div", { class: "home-box" }, box(status, home, sites[home] ?? [])),
    element("div", { class: "routes" }, ...rows.map(({ site, kind, ahead, state, there, back }) =>
      element("div", { class: "route", "data-route": site },
        element("div", { class: "arrows" }, element("p", { class: `tag ${kind}` }, state), arrow(ahead, false, there), arrow(kind, true, back)),
        box(status, site, sites[site])))),
  ]);
}
