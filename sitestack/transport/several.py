"""UDP over several interfaces: one member on several networks (send_on_all_interfaces, LA-7).

Multicasts leave by all interfaces, unicasts by the one on their route. Copies are harmless: a seal
opens once, and unsealed datagrams are numbered or idempotent.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Sequence
from dataclasses import astuple, replace

import trio

from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.model.errors import ConfigurationError
from sitestack.model.host import ip_version, is_address, is_ipv6
from sitestack.model.level import Level
from sitestack.transport.interfaces import find_interface, route_to
from sitestack.transport.udp import UdpStatistics, UdpTransport

#: Seconds for which a route is cached: networks come and go.
ROUTE_S = 5.0
#: Maximum cached routes; beyond it the cache is cleared.
ROUTES_MAX = 4_096


class SeveralUdp:
    """One `UdpTransport` per interface, as one transport. Others watch this member at the first."""

    def __init__(self, config: TransportConfig, site: str, *, watched: bool = True) -> None:
        """Open as `UdpTransport` does. Raises ConfigurationError if the sockets of one interface fail."""
        group = config.group(site).host
        self._parts: dict[str, UdpTransport] = {}
        self._selector = selectors.DefaultSelector()
        try:
            for each in (config.interface, *config.more_interfaces):
                host, first = find_interface(each, group, config.ipv6), not self._parts
                if host in self._parts:
                    raise ConfigurationError(f"transport.more_interfaces: {host} is listed twice; name each interface once.")
                # an external address leads to the first interface
                one = (
                    replace(config, interface=host)
                    if first
                    else replace(config, interface=host, external_host="", external_port=0)
                )
                part = self._parts[host] = UdpTransport(one, config.group(site, ip_version(host)), watched=watched and first)
                self._selector.register(part, selectors.EVENT_READ)
        except BaseException as error:
            self.close()
            if self._parts and isinstance(error, ConfigurationError):
                sentence = str(error).replace("transport.interface:", "transport.more_interfaces:", 1)
                raise type(error)(sentence) from error.__cause__
            raise
        self._first = next(iter(self._parts.values()))
        self._own = frozenset([part.physical()[-1] for part in self._parts.values()])
        self._routes: dict[str, UdpTransport] = {}
        self._routes_until = float("-inf")

    def physical(self) -> tuple[Physical, ...]:
        """Return the addresses on all networks, those of the first interface first (LA-6)."""
        return tuple([place for part in self._parts.values() for place in part.physical()])

    def listener(self) -> socket.socket | None:
        return self._first.listener()

    async def wait(self) -> None:
        await trio.lowlevel.wait_readable(self._selector)

    def receive(self) -> list[tuple[bytes, Physical]]:
        """Return datagrams from all interfaces, without those that this member sent itself."""
        own = self._own
        return [each for part in self._parts.values() for each in part.receive() if each[1] not in own]

    def send(self, datagrams: Sequence[tuple[Physical | None, bytes]]) -> None:
        """Send multicasts by all interfaces, and each unicast by the one on its route."""
        shares: dict[UdpTransport, list[tuple[Physical | None, bytes]]] = {part: [] for part in self._parts.values()}
        for datagram in datagrams:
            to = datagram[0]
            if to is None:
                for share in shares.values():
                    share.append(datagram)
            else:
                shares[self._route(to.host)].append(datagram)
        for part, share in shares.items():
            if share:
                part.send(share)

    def _route(self, host: str) -> UdpTransport:
        now = trio.current_time()
        if now >= self._routes_until or len(self._routes) == ROUTES_MAX:
            self._routes.clear()
            self._routes_until = now + ROUTE_S
        part = self._routes.get(host)
        if part is None:
            # resolving a name would block
            own = route_to(host) if is_address(host) else None
            alike = [part for each, part in self._parts.items() if is_ipv6(each) == is_ipv6(host)]
            part = self._routes[host] = self._parts.get(own or "", alike[0] if alike else self._first)
        return part

    def close(self) -> None:
        self._selector.close()
        for part in self._parts.values():
            part.close()

    def statistics(self) -> UdpStatistics:
        each = [part.statistics() for part in self._parts.values()]
        return replace(
            UdpStatistics(*map(sum, zip(*map(astuple, each), strict=True))),
            receive_buffer_bytes=min(one.receive_buffer_bytes for one in each),
            send_buffer_bytes=min(one.send_buffer_bytes for one in each),
        )

    def levels(self) -> dict[str, Level]:
        return {f"{host}.{name}": level for host, part in self._parts.items() for name, level in part.levels().items()}
