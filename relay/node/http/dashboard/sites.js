// All sites and their members: who coordinates, who relays, who is next.

import { byId, element, redraw, say, tag } from "./dom.js";
import { plural } from "./format.js";

// Whether the relay of this site reaches another one, as any member can tell: whether a link is up just now the relay alone knows.
function reachesAny(status) {
  const sites = status.global_view?.sites ?? {};
  return status.links.some((link) => !link.down && !link.offline && link.site in sites);
}

// Whether a member relays: of itself this node knows it, of the others in its site what all agree on, of other sites nothing.
export function relays(status, site, name, rank) {
  if (site !== status.site) return false;
  return name === status.name ? status.relays_to.length > 0 : rank === 0 && reachesAny(status);
}

function duties(status, site, name, rank) {
  const isHere = site === status.site && name === status.name;
  const told = [];
  if (relays(status, site, name, rank)) told.push(tag("relays", "good"));
  else if (rank === 0) told.push(tag("coordinates"));
  if (rank === 1) told.push(tag("next"));
  return isHere ? [...told, tag("this node", "quiet")] : told;
}

function card(status, site, names, isDown) {
  const state = isDown ? tag("not reached", "bad") : tag(plural(names.length, "member"), "quiet");
  const members = names.map((name, rank) =>
    element("li", { "data-member": name }, element("span", { class: "name" }, name), ...duties(status, site, name, rank)),
  );
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
  const facts = [sites, down, status.site, status.name, status.relays_to, reachesAny(status)];
  redraw(byId("site-list"), facts, () => Object.keys(sites).sort().map((site) => card(status, site, sites[site], down.includes(site))));
  const others = Object.keys(sites).length > 1;
  say(byId("sites-note"), others ? "In another site its coordinator relays, unless it has several relays: which, only its own nodes know." : "");
}
