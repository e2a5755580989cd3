// All sites and their members: who relays, who is next.

import { byId, element, redraw, tag } from "./dom.js";
import { plural } from "./format.js";

function member(name, rank, isHere, relays) {
  const duty = rank === 0 ? tag(relays ? "relays" : "coordinates", "good") : rank === 1 ? tag("next") : null;
  return element("li", { "data-member": name }, element("span", { class: "name" }, name), duty, isHere ? tag("this node", "quiet") : null);
}

function card(site, names, here, isDown, relays) {
  const state = isDown ? tag("not reached", "bad") : tag(plural(names.length, "member"), "quiet");
  const members = names.map((name, rank) => member(name, rank, here.site === site && here.name === name, relays));
  const list = members.length ? element("ul", { class: "members", role: "list" }, ...members) : element("p", { class: "note" }, "Its members are not known here.");
  return element("article", { class: "card", "data-site": site }, element("div", { class: "card-head" }, element("h3", {}, site), state), list);
}

// The members of each site as this node knows them, the coordinator first; of its own site its own view is newest.
export function sitesOf(status) {
  const sites = { ...(status.global_view?.sites ?? {}) };
  if (status.view) sites[status.site] = status.view.members;
  for (const link of status.links) sites[link.site] ??= [];
  return sites;
}

export function showSites(status) {
  const sites = sitesOf(status);
  const down = status.global_view?.down ?? [];
  for (const site of down) sites[site] ??= [];
  const here = { site: status.site, name: status.name };
  const relays = Object.keys(sites).length > 1;
  redraw(byId("site-list"), [sites, down, here], () =>
    Object.keys(sites).sort().map((site) => card(site, sites[site], here, down.includes(site), relays)),
  );
}
