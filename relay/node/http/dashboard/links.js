// How much comes from each site, and how far each other site is behind.

import { Chart } from "./chart.js";
import { byId, element, say } from "./dom.js";
import { bytes, duration, plural, rate } from "./format.js";

// Seconds of lag from which a chart and an arrow show it as high: more than an acknowledgement ever takes.
export const HIGH_LAG_S = 2;

class LinkCard {
  constructor(site, home) {
    const isHome = site === home;
    this.state = element("span", { class: "tag quiet" }, "");
    this.detail = element("p", { class: "note" }, "");
    this.rate = new Chart(isHome ? `${home} → all sites` : `${site} → ${home}`, rate, 1);
    this.lag = isHome ? null : new Chart(`Lag ${home} → ${site}`, duration, 1);
    const charts = element("div", { class: "charts" }, this.rate.figure, this.lag ? this.lag.figure : null);
    const head = element("div", { class: "card-head" }, element("h3", {}, site), this.state);
    this.card = element("article", { class: "card", "data-link": site }, head, this.detail, charts);
  }

  show(link, perSecond, role) {
    this.rate.add(perSecond);
    if (!link) {
      say(this.state, "this site");
      return;
    }
    const [text, kind] = stateOf(link, role);
    say(this.state, text);
    this.state.className = `tag ${kind}`;
    this.lag.add(link.behind_s, link.behind_s > HIGH_LAG_S);
    const behind = link.behind_messages ? `${plural(link.behind_messages, "message")} (${bytes(link.behind_bytes)}) not acknowledged there yet` : "has everything";
    say(this.detail, link.lost_parts_entries ? `${behind}; ${plural(link.lost_parts_entries, "entry", "entries")} held for a part that is gone` : behind);
  }
}

function stateOf(link, role) {
  if (link.offline) return ["switched offline", "quiet"];
  if (link.down) return ["down", "bad"];
  if (link.waited_for) return ["senders wait for it", "bad"];
  if (link.slow) return ["too slow: gaps at the budget", "bad"];
  if (link.linked) return ["linked", "good"];
  return role === "member" ? ["reached", "good"] : ["no link", "bad"];
}

export class Links {
  constructor() {
    this.cards = new Map();
    this.before = null;
  }

  show(status, now) {
    const links = Object.fromEntries(status.links.map((link) => [link.site, link]));
    const delivered = status.messages.delivered;
    const rates = {};
    for (const [site, { card }] of this.cards) {
      if (site !== status.site && !links[site]) {
        card.remove();
        this.cards.delete(site);
      }
    }
    const seconds = this.before ? (now - this.before.now) / 1000 : 0;
    for (const site of [status.site, ...Object.keys(links).sort()]) {
      if (!this.cards.has(site)) {
        this.cards.set(site, new LinkCard(site, status.site));
        byId("link-list").append(this.cards.get(site).card);
      }
      const grown = seconds > 0 ? Math.max(0, (delivered[site] ?? 0) - (this.before.delivered[site] ?? 0)) / seconds : 0;
      rates[site] = grown;
      this.cards.get(site).show(links[site], grown, status.role);
    }
    this.before = { now, delivered };
    const note = status.role === "member" && status.links.length ? "Only the relay knows whether a link is up; how far a site is behind, every member knows." : "";
    say(byId("links-note"), note);
    return rates;
  }
}
