"""Rendezvous (TCPGOSSIP in JGroups): register at gossip routers and report other registered
members.

In a tunnel the transport owns and serves the connections to the routers; this module only opens
them.
"""

from __future__ import annotations

from collections.abc import Callable

import trio

from sitestack.config import SiteConfig
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import CheckMember, CutOff, Event, SetRegistered
from sitestack.seal.proofs import Proofs
from sitestack.stack.layer import Local
from sitestack.transport import Transport
from sitestack.transport.router_link import Registrant, RouterLinks
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.tunnel import TunnelTransport
from sitestack.wire.routing import Entry

#: Versions of contacts from a router: a member's own statements are newer.
REGISTERED_VERSION = 1
#: Interval (s) at which a tunnel member checks for a router, and maximum wait (s) for a lost one.
CUT_OFF_INTERVAL_S, CUT_OFF_S_MAX = 0.5, 30.0


def registrant(local: Local, physical: tuple[Physical, ...], proofs: Proofs | None) -> Registrant:
    return Registrant(local.site, Entry(local.address, local.name, physical), proofs)


class Rendezvous:
    def __init__(self, links: RouterLinks, find_s: float, tunnel: TunnelTransport | None = None) -> None:
        self.links = links
        #: Maximum wait (s) for a router before the member starts without.
        self.find_s = find_s
        self._tunnel = tunnel

    async def run(self, hand_in: Callable[[Event], None]) -> None:
        """Stay registered, and report other registered members, until cancelled.

        Check a member that disappears from all routers. In a tunnel the transport stays registered.
        """
        if self._tunnel is not None:
            self._tunnel.report = lambda member: hand_in(CheckMember(member))
            await self._look_after_tunnel(hand_in)
        known: list[Address] = []
        while True:
            if self.links.poll():
                others = self.links.others()
                contacts = [Contact(each.address, each.name, each.physical, REGISTERED_VERSION) for each in others.values()]
                hand_in(SetRegistered(tuple(contacts)))
                if self.links.has_answer():  # else this member has lost the routers
                    for gone in [each for each in known if each not in others]:
                        hand_in(CheckMember(gone))
                    known = list(others)
            await self.links.wait()

    async def _look_after_tunnel(self, hand_in: Callable[[Event], None]) -> None:
        """Report `CutOff` while no router is reachable, so that silence makes no member suspect.

        After CUT_OFF_S_MAX each member continues alone. One more report follows when a router is
        back.
        """
        since: float | None = None
        while True:
            was_cut_off = since is not None
            if self.links.has_answer():
                since = None
            elif since is None:
                since = trio.current_time()
            if (was_cut_off or since is not None) and (since is None or trio.current_time() - since < CUT_OFF_S_MAX):
                hand_in(CutOff())
            await trio.sleep(CUT_OFF_INTERVAL_S)


def find_rendezvous(local: Local, config: SiteConfig, transport: Transport) -> Rendezvous | None:
    """Return the rendezvous of a member; None if no router is configured."""
    discovery = config.discovery
    carrier = transport.carrier if isinstance(transport, SealedTransport) else transport
    if isinstance(carrier, TunnelTransport):
        return Rendezvous(carrier.links, config.channel.resolve_timeout_s, carrier)
    if not discovery.routers:
        return None
    proofs = transport.proofs if isinstance(transport, SealedTransport) else None
    who = registrant(local, transport.physical(), proofs)
    links = RouterLinks(discovery.routers, who, config.transport.send_queue_bytes_max)
    has_other_ways = config.transport.has_multicast or bool(discovery.initial_hosts)
    find_s = discovery.join_wait_s if has_other_ways else config.channel.resolve_timeout_s
    return Rendezvous(links, find_s)
