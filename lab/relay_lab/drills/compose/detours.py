"""Proxies on the links between sites, for faults beyond packets: half-open and delay.

They listen on this machine at the gateway address of the WAN, at a port for each pair of a caller
and a called member.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio

from relay_lab.drills.executor import Pair, PlaceFailed
from relay_lab.drills.network import Network
from relay_lab.drills.plan import Drill, Seat, between_sites, parse_link
from relay_lab.drills.proxy import StreamProxy, bind_streams

#: Verbs that only a proxy supports, between sites.
PROXIES_ONLY = ("half-open", "delay")
#: The first port of the proxies at the gateway of a run's network.
_PORT = 17_700
#: Place of the first member's address in the subnet; the engine takes earlier ones.
_FIRST_ADDRESS = 16


@dataclass(frozen=True, slots=True)
class Detours:
    gateway: str
    addresses: Mapping[Seat, str]
    #: (calling member, called member) -> the port at the gateway.
    ports: Mapping[Pair, int]

    def peers(self, seat: Seat) -> str:
        return " ".join(
            [f"{other.site}={self.gateway}:{port}" for (caller, other), port in self.ports.items() if caller == seat]
        )


def is_between_sites(drill: Drill, link: str) -> bool:
    one, other, _ = parse_link(link, drill.sites, drill.members)
    return one.site != other.site


def leads_by_proxies(drill: Drill) -> bool:
    """Return whether the drill injects a fault between sites that only a proxy can."""
    return any(action.do in PROXIES_ONLY and is_between_sites(drill, action.link) for action in drill.method)


def plan_detours(seats: Sequence[Seat], subnet: str) -> Detours:
    network = ipaddress.ip_network(subnet)
    return Detours(
        gateway=str(network[1]),
        addresses={seat: str(network[_FIRST_ADDRESS + place]) for place, seat in enumerate(seats)},
        ports={pair: _PORT + place for place, pair in enumerate(between_sites(seats))},
    )


async def start_detours(detours: Detours, bridge_port: int, network: Network, nursery: trio.Nursery) -> None:
    """Start all proxies in the nursery; the network of the WAN must exist. Raises PlaceFailed."""
    for (caller, called), port in detours.ports.items():
        try:
            listener = await bind_streams(detours.gateway, port)
        except OSError as error:
            raise PlaceFailed(
                f"The gateway {detours.gateway} of the run's WAN cannot be listened on ({error.strerror})."
            ) from error
        there, back = network.line(caller, called), network.line(called, caller)
        nursery.start_soon(StreamProxy(listener, (detours.addresses[called], bridge_port), there, back).run)
