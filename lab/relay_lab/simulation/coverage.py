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

#: What happens to a world -> the code of that kind of fault.
FAULTS: dict[str, str] = {
    "split": "F6",
    "split one way": "F7",
    "kill coordinator": "F10",
    "kill member": "F11",
    "relay died with entries on their way": "F13",
    "kill between steps, before transmit": "F14",
    "kill between steps, before act": "F14",
    "kill between steps, before hand_over": "F14",
    "pause": "F15",
    "long pause": "F15",
    "wan cut": "F21",
    "gap": "F22",
    "cut bridge": "F23",
    "router died": "F23",
    "link through a router": "LA-16",
    "senders held back": "X11",
    "site too slow": "X11",
    "wan cut one way": "F25",
    "site lost": "F29",
    "restart": "F30",
    "replace": "F31",
    "both parts of a site relay": "F32",
    "merge": "F33",
    "leave": "F40",
    "leave coordinator": "F40",
    "move": "F42",
    "hole": "F43",
    "hole one way": "F43",
    "faults that outlast the load": "F43",
    "small datagrams only": "F44",
    "narrow wire": "F45",
    "slow application": "F46",
    "application takes nothing": "F46",
    "slow application left out": "F46",
    "unicasts to the gone": "F48",
    "dead interface": "F51",
    "dead network": "F51",
    "disk full": "F50",
    "disk unreadable": "F50",
    "spilled": "F22",
    "sent from a spill": "F22",
    "part of a wan cut": "F49",
    "part of a wan cut one way": "F49",
    "reset by sender": "U4",
    "reset by receiver": "U4",
    "reset by both": "U4",
    "lock held": "M6",
    "budget reloaded": "F22",
    "peer removed": "F22",
    "peer added": "F22",
    "gap by rule": "F22",
    "site offline by rule": "F22",
    "key repeated": "K1",
    "call answered": "K2",
    "flushed everywhere": "K2",
    "flushed with a lack": "K2",
}

DROPS: tuple[str, ...] = (
    "blocked",
    "bridge_late",
    "duplicate",
    "hello_stale_epoch",
    "hello_twin",
    "link_hello_timeout",
    "link_silent",
    "magic",
    "malformed",
    "misdirected",
    "nak_duplicate",
    "nak_later_view",
    "nak_old_view",
    "nak_other_view",
    "no_authority",
    "not_answered",
    "not_connected",
    "not_in_view",
    "not_monitored",
    "probe_answer",
    "old_view",
    "relay_delivered_before_merge",
    "relay_duplicate",
    "relay_reply_no_relay",
    "relay_unicast_again",
    "removed_contact",
    "stable_other_view",
    "stale_flush_reject",
    "unicast_duplicate",
    "unicast_stale_ack",
    "unicast_stale_connection",
    "unicast_stale_send_first",
    "unknown_ids",
    "unresolved",
    "version",
)


ROUTED: tuple[str, ...] = (
    "batch over a route",
    "unicast over a route",
    "gap over a route",
    "relay in between died with entries of others on their way",
    "kill coordinator in between",
    "leave coordinator in between",
    "replace in between",
    "pause in between",
    "split in between",
    "both parts of a site relay",
    "cut bridge",
    "wan cut",
    "wan cut one way",
    "site lost",
    "hole",
    "part of a wan cut",
    "unicasts to the gone",
    "drop hello_twin",
    "drop route_full",
    "drop route_hole",
    "drop route_no_link",
    "drop route_unknown",
)

GOALS: dict[str, tuple[str, ...]] = {
    "swarm": (*FAULTS, *[f"drop {reason}" for reason in DROPS]),
    "routed": ROUTED,
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
