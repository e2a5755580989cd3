"""Whether the sites have come to rest: everybody sees everybody, and every queue is at its floor (B3). Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from relay.instruments.drills.executor import Status
from relay.instruments.drills.plan import Seat
from relay.instruments.drills.sites import is_member, sees

#: What is empty in a site where nothing is going on: names in the statistics of a node. Besides these, everything for which the
#: status names a bound is empty, but for what is in `STANDING`.
QUEUES = (
    "backlog_bytes",
    "stack.batching.open_bytes",
    "stack.batching.outstanding_bytes",
    "stack.batching.waiting_bytes",
    "stack.relay.buffer_entries",
    "stack.relay.waiting_bytes",
    "stack.relay.pending_bytes",
    "stack.state_transfer.waiting",
    "stack.state_transfer.arrived_bytes",
    "stack.sequencer.undelivered",
    "stack.sequencer.unstable",
    "stack.flow_control.queued_frames",
    "stack.flow_control.awaited_bytes",
    "stack.membership.held_frames",
    "stack.stability.unstable_count",
    "stack.fragment.partials",
    "stack.unicast.unacked_frames",
    "stack.unicast.queued_frames",
    "stack.unicast.reordered_frames",
    "stack.nakack.streams_with_gaps",
    "stack.nakack.retained_count",
    "stack.nakack.ahead_bytes",
    "stack.nakack.later_count",
    "stack.resolver.queued_frames",
    "transport.queued_bytes",
)
#: What has a bound and is no queue, with what its floor is.
STANDING = {
    "stack.batching.targets": "members that were sent to, each with a counter that is never used twice",
    "stack.unicast.peers": "members that something was received from",
    "stack.failure_detection.limited": "processes that were answered, remembered so that they are answered seldom",
    "stack.relay.origins": "members of other sites, what was received of each",
    "stack.relay.lineages": "the other sites' lines of views",
    "stack.relay.unicast_senders": "members of other sites that have sent to this one, what was received of each",
    "stack.relay.connections": "a relay has one for each link",
    "stack.sequencer.tombstones": "members of earlier views, remembered so that what they say late is not taken for new",
    "stack.discovery.contacts": "addresses of members that were found",
    "stack.discovery.answered": "searches that were answered, remembered so that they are answered once",
    "stack.resolver.contacts": "addresses of the members of the site",
    "watch.watchers": "other members hold a connection each, to see when this one is gone",
    "bridge.connections": "a relay has one for each link",
}


def queues(statuses: Mapping[Seat, Status]) -> dict[str, int]:
    """What is in each of the queues, at all members together: those named here, and all that have a bound and do not stand."""
    contents = {name: sum(_at(status, name) for status in statuses.values()) for name in QUEUES}
    for status in statuses.values():
        for queue in status["queues"]:
            name = queue["queue"]
            if name not in STANDING and name not in QUEUES:
                contents[name] = contents.get(name, 0) + int(queue["now"])
    return contents


def unrest(statuses: Mapping[Seat, Status], seats: Sequence[Seat]) -> list[str]:
    """What is not as it is at rest when just these members run, in sentences."""
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


def _at(status: Status, name: str) -> int:
    value = status["statistics"]
    for key in name.split("."):
        value = value[key]
    return int(value)
