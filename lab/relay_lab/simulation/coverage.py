"""Coverage: pairs that a campaign must have met, and events that must occur in it at least once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import combinations

from relay_lab.simulation.covering import pair_of
from relay_lab.simulation.dimensions import ROWS, Kind, covering
from relay_lab.simulation.generator import names_met

#: Seeds in a campaign that is large enough to meet everything. The routed plans have fewer kinds of things to meet.
SEEDS_MIN = {"swarm": 1_000, "routed": 300}

#: The code of a kind of fault -> what happens to a world then.
FAULTS = {
    "F6": "split",
    "F7": "split one way",
    "F10": "kill coordinator",
    "F11": "kill member",
    "F13": "relay died with entries on their way",
    "F14": "kill between steps, before transmit; kill between steps, before act; kill between steps, before hand_over",
    "F15": "pause; long pause",
    "F21": "wan cut",
    "F22": "gap; spilled; sent from a spill; budget reloaded; peer removed; peer added; gap by rule; site offline by rule",
    "F23": "cut bridge; router died",
    "LA-16": "link through a router",
    "X11": "senders held back; site too slow",
    "F25": "wan cut one way",
    "F29": "site lost",
    "F30": "restart",
    "F31": "replace",
    "F32": "both parts of a site relay",
    "F33": "merge",
    "F40": "leave; leave coordinator",
    "F42": "move",
    "F43": "hole; hole one way; faults that outlast the load",
    "F44": "small datagrams only",
    "F45": "narrow wire",
    "F46": "slow application; application takes nothing; slow application left out",
    "F48": "unicasts to the gone",
    "F51": "dead interface; dead network",
    "F50": "disk full; disk unreadable",
    "F49": "part of a wan cut; part of a wan cut one way",
    "U4": "reset by sender; reset by receiver; reset by both",
    "M6": "lock held",
    "K1": "key repeated",
    "K2": "call answered; flushed everywhere; flushed with a lack",
}

DROPS = (
    "blocked bridge_late duplicate hello_stale_epoch hello_twin link_hello_timeout link_silent magic malformed "
    "misdirected nak_duplicate nak_later_view nak_old_view nak_other_view no_authority not_answered not_connected "
    "not_in_view not_monitored probe_answer old_view relay_delivered_before_merge relay_duplicate "
    "relay_reply_no_relay relay_unicast_again removed_contact stable_other_view stale_flush_reject "
    "unicast_duplicate unicast_stale_ack unicast_stale_connection unicast_stale_send_first unknown_ids unresolved "
    "version"
)

ROUTED = (
    "batch over a route; unicast over a route; gap over a route; "
    "relay in between died with entries of others on their way; kill coordinator in between; "
    "leave coordinator in between; replace in between; pause in between; split in between; "
    "both parts of a site relay; cut bridge; site lost; hole; unicasts to the gone; wan cut; wan cut one way; "
    "part of a wan cut; drop hello_twin; drop route_full; drop route_hole; drop route_no_link; drop route_unknown"
)

LANES = ("frame on a lane", "frame of a lane expanded")

GOALS: dict[str, tuple[str, ...]] = {
    "swarm": (*"; ".join(FAULTS.values()).split("; "), *LANES, *[f"drop {reason}" for reason in DROPS.split()]),
    "routed": tuple(ROUTED.split("; ")),
}


def find_missing(covered: Mapping[str, int], seeds: Collection[int], kind: Kind = "swarm") -> list[str]:
    """Return the pairs and events that a campaign of these seeds of a kind had to meet and has not; a small one has none."""
    goals = GOALS.get(kind, ()) if len(seeds) >= SEEDS_MIN.get(kind, 0) else ()
    return [*_unmet_pairs(seeds, kind), *[goal for goal in goals if not covered.get(goal)]]


def _unmet_pairs(seeds: Collection[int], kind: Kind) -> list[str]:
    """Return the pairs that no plan of the whole blocks among the seeds has, if there is a whole block."""
    blocks = Counter(seed // ROWS for seed in set(seeds))
    whole = [block for block, count in blocks.items() if count == ROWS]
    if not whole:
        return []
    plans = [names_met(seed, kind) for block in whole for seed in range(block * ROWS, (block + 1) * ROWS)]
    met = {pair_of(pair) for names in plans for pair in combinations(names, 2)}
    return [f"{one} with {other}" for one, other in sorted(covering(kind).pairs - met)]
