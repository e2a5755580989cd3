"""Ports, multicast groups and configuration files of a drill's members on this machine, for one run."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from relay.keys.directory import make_key_directory
from relay_lab.drills.plan import Drill, Seat
from sitestack.model.address import Physical
from sitestack.model.host import is_ipv6


def make_keys(drill: Drill, directory: Path) -> Path:
    """Make the keys of all sites, and of those whose keys attackers have; return the directory."""
    keys = directory / "keys"
    make_key_directory(keys, list(dict.fromkeys([*drill.sites, *[each.key_of for each in drill.attacks if each.key_of]])))
    return keys


LOOPBACK = "127.0.0.1"
#: Range for the ports of multicast groups, below those that the system gives out.
_GROUP_PORTS = (20_000, 32_000)

#: How members find each other: by multicast, hosts, IPv6 hosts, or gossip routers, with UDP or TCP;
#: in a tunnel they also talk through these.
Discovery = Literal["multicast", "hosts", "ipv6", "router", "router-tcp", "tunnel"]
_KINDS: dict[Discovery, str] = {"router": "udp", "router-tcp": "tcp", "tunnel": "tunnel"}
#: two, so that one can be lost
_ROUTERS = 2


@dataclass(frozen=True, slots=True)
class Ports:
    """The members' own ports."""

    bridges: Mapping[Seat, int]
    datagrams: Mapping[Seat, int]
    #: Multicast group and port of each site, where there is multicast.
    groups: Mapping[str, tuple[str, int]]
    #: For members with an address on a wire or of the loopback network.
    addresses: Mapping[Seat, str] = field(default_factory=dict)
    #: The ports of the gossip routers, and the transport of members that use them.
    routers: Sequence[int] = ()
    kind: str = "udp"

    def host(self, seat: Seat) -> str:
        return self.addresses.get(seat, LOOPBACK)


@dataclass(frozen=True, slots=True)
class Detours:
    """Ports of proxies, by which members reach each other."""

    #: (calling member, called member) -> the port to call.
    bridges: Mapping[tuple[Seat, Seat], int] = field(default_factory=dict)
    datagrams: Mapping[Seat, int] = field(default_factory=dict)


DIRECT = Detours()


@contextmanager
def reserved_ports(seats: Sequence[Seat], discovery: Discovery) -> Iterator[Ports]:
    """Yield ports for all members; inside the block no other process gets the bridge ports."""
    reserved: list[socket.socket] = []
    sites = [*dict.fromkeys(seat.site for seat in seats)]
    host = "::1" if discovery == "ipv6" else LOOPBACK
    try:
        bridges = {seat: _reserve(reserved, host) for seat in seats}
        datagrams = {seat: _reserve_pair(reserved, host) for seat in seats} if discovery in ("hosts", "ipv6") else {}
        addresses = dict.fromkeys(seats, host)
        groups = {site: draw_group() for site in sites} if discovery == "multicast" else {}
        routers = [_reserve(reserved, host) for _ in range(_ROUTERS)] if discovery in _KINDS else []
        yield Ports(bridges, datagrams, groups, addresses, routers=routers, kind=_KINDS.get(discovery, "udp"))
    finally:
        for each in reserved:
            each.close()


def write_configurations(
    ports: Ports,
    directory: Path,
    detours: Detours = DIRECT,
    overrides: Mapping[str, Any] | None = None,
    keys: Path | None = None,
) -> dict[Seat, Path]:
    """Write the configuration file of each member into `directory`. `overrides` replace other values.
    `keys`: the key directory; None: insecure.
    """
    files = {}
    for seat in ports.bridges:
        security = {"insecure": True} if keys is None else {"keys": str(keys / seat.site)}
        plain = merged({**_configuration(seat, ports, detours), "security": security}, overrides or {})
        files[seat] = directory / f"{seat.site}-{seat.name}.yaml"
        files[seat].write_text(json.dumps(plain, indent=2), encoding="utf-8")
    return files


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both mappings merged at all depths; where both have a value, `over` wins."""
    both = dict(base)
    for key, value in over.items():
        before = both.get(key)
        both[key] = merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _configuration(seat: Seat, ports: Ports, detours: Detours) -> dict[str, Any]:
    peers: dict[str, list[str]] = {}
    for other, port in ports.bridges.items():
        if other.site != seat.site:
            peers.setdefault(other.site, []).append(str(Physical(ports.host(other), detours.bridges.get((seat, other), port))))
    discovery: dict[str, Any] = {}
    if ports.routers:  # earlier releases do not know the key
        discovery["routers"] = [f"{LOOPBACK}:{port}" for port in ports.routers]
    ours = {other: port for other, port in ports.datagrams.items() if other.site == seat.site}
    places = [Physical(ports.host(other), detours.datagrams.get(other, port)) for other, port in ours.items()]
    discovery["initial_hosts"] = [str(place) for place in places]
    return {
        "site": seat.site,
        "name": seat.name,
        "transport": _transport(seat, ports, detours),
        "discovery": discovery,
        "relay": {"bridge": {"bind": str(Physical(ports.host(seat), ports.bridges[seat])), "peers": peers}},
    }


def _transport(seat: Seat, ports: Ports, detours: Detours) -> dict[str, Any]:
    """Use one group for the site where there is multicast, else a port for each member."""
    if seat.site in ports.groups:
        group, port = ports.groups[seat.site]
        return {"interface": ports.host(seat), "multicast_group": group, "multicast_port": port}
    if ports.routers:
        return {"interface": LOOPBACK, "multicast": False, "kind": ports.kind}
    plain: dict[str, Any] = {"interface": ports.host(seat), "multicast": False, "port": ports.datagrams[seat]}
    if is_ipv6(ports.host(seat)):  # earlier releases do not know the key
        plain["ipv6"] = True
    if seat in detours.datagrams:
        plain |= {"external_host": LOOPBACK, "external_port": detours.datagrams[seat]}
    return plain


def draw_group() -> tuple[str, int]:
    """Return a random multicast group and port, so that runs do not hear each other."""
    system = random.SystemRandom()
    group = f"239.{system.randint(192, 195)}.{system.randint(0, 255)}.{system.randint(1, 254)}"
    return group, system.randint(*_GROUP_PORTS)


def _reserve_pair(reserved: list[socket.socket], host: str) -> int:
    """Return a port that is reserved in TCP and free in UDP."""
    while True:
        port = _reserve(reserved, host)
        with socket.socket(_family(host), socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.bind((host, port))
            return port


def _reserve(reserved: list[socket.socket], host: str) -> int:
    """Return a free TCP port, reserved while its socket is open. Members, which set SO_REUSEADDR, can bind it."""
    sock = socket.socket(_family(host), socket.SOCK_STREAM)
    reserved.append(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, 0))
    port: int = sock.getsockname()[1]
    return port


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if is_ipv6(host) else socket.AF_INET
