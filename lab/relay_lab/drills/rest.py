"""Whether the sites have come to rest: all members see each other, and every queue that empties at rest is empty (B3). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay_lab.drills.executor import Status
from relay_lab.drills.plan import Seat
from relay_lab.drills.sites import is_member, sees


def queues(statuses: Mapping[Seat, Status]) -> dict[str, int]:
    """How much each queue that empties at rest still holds, summed over all members."""
    contents: dict[str, int] = {}
    for status in statuses.values():
        for queue in status["queues"]:
            if not queue["stands"]:
                contents[queue["queue"]] = contents.get(queue["queue"], 0) + int(queue["now"])
    return contents


def unrest(statuses: Mapping[Seat, Status], seats: Sequence[Seat]) -> list[str]:
    """Sentences on everything that is not at rest, when exactly these members should run."""
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
            found.append(f"The relay of {site} is not linked to everybody.")
    found += [f"{name}: {number}." for name, number in queues(statuses).items() if number]
    return found


def _told(status: Status) -> str:
    sites = (status.get("global_view") or {}).get("sites", {})
    return ", ".join(name for names in sites.values() for name in names) or "nobody"
