"""Opening the sockets of a channel, or of several: the names that are configured, the interface, the kind of transport."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import trio

from sitestack.channel.presence.rendezvous import registrant
from sitestack.config import SiteConfig, TransportConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.seal.proofs import Proofs
from sitestack.stack.layer import Local
from sitestack.transport import Transport
from sitestack.transport.interfaces import Names, find_interface, route_to, route_towards
from sitestack.transport.several import SeveralUdp
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.tunnel import TunnelTransport
from sitestack.transport.udp import UdpTransport

S = TypeVar("S", bound=SiteConfig)


@dataclass(frozen=True, slots=True)
class HostNames:
    """The host names of a configuration, which `member` looks up again."""

    members: Names
    routers: Names


async def resolve_names(config: S) -> tuple[S, HostNames]:
    """The configuration with addresses instead of names, and the names."""
    discovery, timeout_s = config.discovery, config.channel.resolve_timeout_s
    named = discovery.initial_hosts if discovery.dns is None else (*discovery.initial_hosts, discovery.dns)
    names = HostNames(Names(named), Names(discovery.routers))
    found: dict[Names, tuple[Physical, ...]] = {}

    async def find(each: Names) -> None:
        found[each] = await each.find(timeout_s)

    async with trio.open_nursery() as nursery:
        for each, given in ((names.members, named), (names.routers, discovery.routers)):
            if given:
                nursery.start_soon(find, each, name=f"names for a member of {config.site}")
    # Routers whose names nobody knows yet stay named: a member that has routers goes on looking for them.
    routers = found.get(names.routers) or discovery.routers
    discovery = replace(discovery, initial_hosts=found.get(names.members, ()), routers=routers)
    return replace(config, discovery=discovery), names


async def open_sockets(local: Local, config: SiteConfig, proofs: Proofs | None = None) -> Transport:
    """Open the sockets, once this machine has a network. Raises ConfigurationError when a configured interface is missing."""
    if config.transport.kind == "tunnel":
        return TunnelTransport(config.transport, config.discovery.routers, registrant(local, (), proofs))
    transport, group = await find_network(config)
    if transport.kind == "tcp":
        return TcpTransport(transport, group, proofs)
    several = SeveralUdp if transport.more_interfaces else UdpTransport
    return several(transport, group, watched=config.protocols.failure_detection.watch)


async def open_carrier(config: SiteConfig) -> TcpTransport | UdpTransport:
    """Open sockets that channels are to share, each with a multicast group and keys of its own. Raises ConfigurationError."""
    if config.transport.more_interfaces:
        raise ConfigurationError("transport.more_interfaces: a transport that channels share has one interface.")
    resolved, _ = await resolve_names(config) if not config.transport.interface else (config, None)
    transport, _ = await find_network(resolved)
    if transport.kind == "tcp":
        return TcpTransport(transport, None)
    return UdpTransport(transport, None, watched=config.protocols.failure_detection.watch)


async def find_network(config: SiteConfig) -> tuple[TransportConfig, Physical]:
    """The settings of the transport with the interface to use, and the site's multicast group. Raises ConfigurationError."""
    interface = config.transport.interface or await route_towards(_others(config), config.channel.resolve_timeout_s)
    return replace(config.transport, interface=interface), config.transport.group(config.site)


def find_host(config: SiteConfig) -> str | None:
    """The address of this machine at which a member with this configuration would be opened now; None without a network."""
    if not config.transport.interface:
        return next(filter(None, map(route_to, _others(config))), None)
    try:
        return find_interface(config.transport.interface, "")
    except ConfigurationError:
        return None


def _others(config: SiteConfig) -> list[str]:
    """The hosts by whose routes the interface is chosen.

    An initial host or a router on this machine does not tell by which interface other machines reach it.
    """
    discovery, group = config.discovery, config.transport.group(config.site)
    named = [each.host for each in (*discovery.initial_hosts, *discovery.routers) if not each.host.startswith("127.")]
    return [group.host, *named]
