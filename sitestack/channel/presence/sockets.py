"""Open the sockets of one or several channels: resolve names, find the interface, choose the transport."""

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
    """Host names of a configuration, which `member` resolves again at intervals."""

    members: Names
    routers: Names


async def resolve_names(config: S) -> tuple[S, HostNames]:
    """Return the configuration with addresses instead of names, and the names."""
    discovery, timeout_s, versions = config.discovery, config.channel.resolve_timeout_s, config.transport.ip_versions
    named = discovery.initial_hosts if discovery.dns is None else (*discovery.initial_hosts, discovery.dns)
    names = HostNames(Names(named, versions), Names(discovery.routers, versions))
    async with trio.open_nursery() as nursery:
        for each, given in ((names.members, named), (names.routers, discovery.routers)):
            if given:
                nursery.start_soon(each.find, timeout_s, name=f"names for a member of {config.site}")
    # a member keeps resolving its routers
    routers = names.routers.addresses() or discovery.routers
    discovery = replace(discovery, initial_hosts=names.members.addresses(), routers=routers)
    return replace(config, discovery=discovery), names


async def open_sockets(local: Local, config: SiteConfig, proofs: Proofs | None = None) -> Transport:
    """Open the sockets, once this machine has a network.

    Raises ConfigurationError if a configured interface is missing.
    """
    if config.transport.kind == "tunnel":
        return TunnelTransport(config.transport, config.discovery.routers, registrant(local, (), proofs))
    transport, group = await find_network(config)
    if transport.kind == "tcp":
        return TcpTransport(transport, group, proofs)
    watched = config.protocols.failure_detection.watch
    if transport.more_interfaces:
        return SeveralUdp(transport, config.site, watched=watched)
    return UdpTransport(transport, group, watched=watched)


async def open_carrier(config: SiteConfig) -> TcpTransport | UdpTransport:
    """Open sockets that channels share, each with its own multicast group and keys.

    Raises ConfigurationError.
    """
    if config.transport.more_interfaces:
        raise ConfigurationError("transport.more_interfaces: a transport that channels share has one interface.")
    resolved, _ = await resolve_names(config) if not config.transport.interface else (config, None)
    transport, _ = await find_network(resolved)
    if transport.kind == "tcp":
        return TcpTransport(transport, None)
    return UdpTransport(transport, None, watched=config.protocols.failure_detection.watch)


async def find_network(config: SiteConfig) -> tuple[TransportConfig, Physical]:
    """Return the transport settings with the interface to use, and the site's multicast group.

    Raises ConfigurationError.
    """
    interface = config.transport.interface or await route_towards(_others(config), config.channel.resolve_timeout_s)
    return replace(config.transport, interface=interface), config.transport.group(config.site)


def find_host(config: SiteConfig) -> str | None:
    """Return the address that a member with this configuration would bind now; None without a network."""
    if not config.transport.interface:
        return next(filter(None, map(route_to, _others(config))), None)
    try:
        return find_interface(config.transport.interface, "", config.transport.ipv6)
    except ConfigurationError:
        return None


def _others(config: SiteConfig) -> list[str]:
    """Return the hosts whose routes determine the interface, without loopback hosts."""
    discovery, group = config.discovery, config.transport.group(config.site)
    named = [
        each.host
        for each in (*discovery.initial_hosts, *discovery.routers)
        if not each.host.startswith("127.") and each.host != "::1"
    ]
    return [group.host, *named]
