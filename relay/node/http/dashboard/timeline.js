// Views, failovers and gaps in the order in which the node has seen them, told as changes.

import { byId, element, say, tag } from "./dom.js";
import { clock, plural } from "./format.js";

const SHOWN_MAX = 100;
const WHY = {
  budget: "its site exceeded its budget",
  too_large: "too large for the link",
  not_held: "its site no longer has them",
  offline: "its site had switched this site offline",
  disk: "the disk of its relay failed",
  other_part: "delivered by another part of this site during a split",
  backlog: "not taken in time",
  no_longer_held: "this page was away for too long",
  another_process: "the node was started again",
};

export class TimeLine {
  constructor() {
    this.sites = {};
    this.down = [];
    for (const id of ["timeline-kind", "timeline-text"]) byId(id).addEventListener("input", () => this.filter());
  }

  // Hides the entries of other kinds, and those without the text.
  filter() {
    const [kind, text] = ["timeline-kind", "timeline-text"].map((id) => byId(id).value.trim().toLowerCase());
    for (const entry of byId("timeline").children) {
      entry.hidden = Boolean((kind && entry.dataset.kind !== kind) || !entry.textContent.toLowerCase().includes(text));
    }
  }

  // Offers a kind to filter by, once there is an entry of it.
  offer(kind) {
    const choice = byId("timeline-kind");
    if (![...choice.options].some((option) => option.value === kind)) choice.append(element("option", { value: kind }, kind));
  }

  // Takes an event, and shows what it means.
  hear(kind, about) {
    if (kind === "view") this.changeSite(about.site, about.members, about.time, about.merged);
    if (kind === "global_view") this.changeAll(about);
    if (kind === "role" && about.role === "relay") this.add(about.time, "relay", "good", `This node relays to ${about.relays_to.join(", ")}`);
    if (kind === "site_switched") this.add(about.time, about.offline ? "offline" : "online", about.offline ? "bad" : "good", `the operator switched ${about.site} ${about.offline ? "offline" : "online"}`);
    if (kind === "gap") this.gap(about);
    if (kind === "unreachable") this.add(about.time, "unreachable", "bad", `${plural(about.last - about.first + 1, "message")} to one member of ${about.target[0]}: ${about.reason}`);
  }

  changeSite(site, members, time, merged) {
    const before = this.sites[site];
    this.sites[site] = members;
    if (before && String(before) === String(members)) return;
    const gone = (before ?? []).filter((name) => !members.includes(name));
    const joined = before ? members.filter((name) => !before.includes(name)) : [];
    const parts = [gone.length && `${gone.join(", ")} gone`, joined.length && `${joined.join(", ")} joined`].filter(Boolean);
    const change = parts.length ? `${parts.join("; ")}; ` : "";
    if (before && gone.includes(before[0])) {
      this.add(time, "failover", "bad", `${site}: ${members[0]} takes over from ${before[0]}; members ${members.join(", ")}`);
    } else {
      this.add(time, merged ? "merge" : "view", "", `${site}: ${change}members ${members.join(", ")}`);
    }
  }

  changeAll(about) {
    for (const site of about.down.filter((each) => !this.down.includes(each))) this.add(about.time, "site lost", "bad", `${site} is not reached any more`);
    for (const site of this.down.filter((each) => !about.down.includes(each))) this.add(about.time, "site back", "good", `${site} is reached again`);
    this.down = about.down;
    for (const [site, members] of Object.entries(about.sites)) {
      if (String(this.sites[site]) !== String(members)) this.changeSite(site, members, about.time, false);
    }
  }

  gap(about) {
    const why = WHY[about.reason] ?? about.reason;
    if ("first" in about.gap) {
      this.add(about.time, "gap", "bad", `${plural(about.gap.last - about.gap.first + 1, "message")} of ${about.gap.site} will not be delivered: ${why}`);
    } else {
      this.add(about.time ?? Date.now() / 1000, "missed", "", `Events are missing here: ${why}`);
    }
  }

  add(time, kind, look, text) {
    const list = byId("timeline");
    const at = element("time", { datetime: new Date(time * 1000).toISOString() }, clock(time));
    const fresh = Date.now() / 1000 - time < 10 ? "fresh" : null;
    list.prepend(element("li", { "data-kind": kind, class: fresh }, at, tag(kind, look || "quiet"), element("span", { class: "what" }, text)));
    while (list.children.length > SHOWN_MAX) list.lastChild.remove();
    this.offer(kind);
    this.filter();
    if (fresh) say(byId("announcement"), `${kind}: ${text}`);
  }
}
