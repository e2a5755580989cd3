"""Conditions of a drill besides the promises: views, links, and members with full disks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay_lab.drills.executor import Status
from relay_lab.drills.plan import Drill, Seat
from relay_lab.drills.sites import Sites, is_member, sees


def queues(statuses: Mapping[Seat, Status]) -> dict[str, int]:
    contents: dict[str, int] = {}
    for status in statuses.values():
        # Held for a lost part until the age of the budget (decision 8).
        lost = max([link.get("lost_parts_entries", 0) for link in status["links"]], default=0)
        held = [q["now"] for q in status["queues"] if q["queue"] == "stack.relay.buffer_entries"]
        is_lost = lost > 0 and held == [lost]
        for queue in status["queues"]:
            if not queue["stands"] and not (is_lost and queue["queue"].startswith("stack.relay.buffer_")):
                contents[queue["queue"]] = contents.get(queue["queue"], 0) + int(queue["now"])
    return contents


def overfull(statuses: Mapping[Seat, Status]) -> list[str]:
    """Return sentences on queues above their bounds."""
    return [
        f"{queue['queue']} of {seat.name} of {seat.site} is above its bound of {queue['max']}."
        for seat, status in statuses.items()
        for queue in status["queues"]
        if queue["max"] is not None and queue["now"] > queue["max"]
    ]


def unrest(statuses: Mapping[Seat, Status], seats: Sequence[Seat]) -> list[str]:
    """Return sentences on everything that is not at rest, when exactly these members should run."""
    found = [f"{seat.name} of {seat.site} does not answer." for seat in seats if seat not in statuses]
    for seat, status in statuses.items():
        if not is_member(status):
            found.append(f"{seat.name} of {seat.site} is not a member.")
        elif not sees(status, seats):
            found.append(f"{seat.name} of {seat.site} sees {_told(status)}.")
    for site in dict.fromkeys(seat.site for seat in seats):
        relays = [status for seat, status in statuses.items() if seat.site == site and status["role"] == "relay"]
        others = len({seat.site for seat in seats} - {site})
        if len(relays) != 1:
            found.append(f"{site} has {len(relays)} relays.")
        elif sum(link["linked"] for link in relays[0]["links"]) < others:
            found.append(f"The relay of {site} is not linked to all members.")
    found += [f"{name}: {number}." for name, number in queues(statuses).items() if number]
    return found


def _told(status: Status) -> str:
    sites = (status.get("global_view") or {}).get("sites", {})
    return ", ".join(name for names in sites.values() for name in names) or "nobody"


def unlike_others(sites: Sites, heard: Mapping[Seat, Status], at_end: Mapping[Seat, Status]) -> list[str]:
    """Return problems of members with a full disk: they must deliver everything, and count lost
    records (B6).

    `heard`: the last status of each member, `at_end`: those at the end.
    """
    problems = []
    for seat in sites.full:
        status = heard[seat]
        others = [each for other, each in at_end.items() if other.site == seat.site and other not in sites.touched]
        if any(each["messages"]["delivered"] != status["messages"]["delivered"] for each in others):
            problems.append(f"{seat.name} of {seat.site}, whose disk was full, delivered something else than the others.")
        if not status["journal"]["lost_records"]:
            problems.append(f"The journal of {seat.name} of {seat.site} misses nothing, so its disk was never full.")
    return problems


def wrong_views(drill: Drill, at_end: Mapping[Seat, Status]) -> list[str]:
    """Return problems of the final views, where the drill specifies them."""
    running = {site: {seat.name for seat in at_end if seat.site == site} for site in drill.sites}
    return [
        f"At the end {', '.join(sorted(running.get(site, ())))} are in the view of {site}, not {', '.join(names)}."
        for site, names in drill.verdict.views.items()
        if running.get(site) != set(names)
    ]


def lost_links(drill: Drill, at_end: Mapping[Seat, Status]) -> list[str]:
    return [
        f"{seat.name} of {seat.site} has given up {count} {'link' if count == 1 else 'links'}: {reason}."
        for seat, status in at_end.items()
        for reason, count in status["drops"].items()
        if drill.verdict.steady_links and reason.startswith("link_")
    ]
