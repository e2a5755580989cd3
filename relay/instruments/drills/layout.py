"""Who takes part in a drill on this machine, and the configuration of each: addresses, ports and groups of this run alone.

Every member has a file of its own because on one machine each needs a port of its own for the bridge; on real machines one file
serves a site.
"""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from relay.instruments.drills.plan import Seat

LOOPBACK = "127.0.0.1"
#: Ports of the run's multicast groups: below those that the system gives out by itself.
_GROUP_PORTS = (20_000, 32_000)

Discovery = Literal["multicast", "hosts"]


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the members really are."""

    bridges: Mapping[Seat, int]
    #: UDP ports, where there is no multicast.
    datagrams: Mapping[Seat, int]
    #: Multicast group and port of each site, where there is multicast.
    groups: Mapping[str, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Detours:
    """Ports of proxies, by which members reach each other instead."""

    #: (who calls, whom): the port to call.
    bridges: Mapping[tuple[Seat, Seat], int] = field(default_factory=dict)
    #: The port at which others find a member of their site.
    datagrams: Mapping[Seat, int] = field(default_factory=dict)


DIRECT = Detours()


@contextmanager
def reserved_ports(seats: Sequence[Seat], discovery: Discovery) -> Iterator[Ports]:
    """Ports for all seats; inside the block nobody else is given those of the bridges."""
    reserved: list[socket.socket] = []
    try:
        bridges = {seat: _reserve(reserved) for seat in seats}
        datagrams = {seat: _reserve_pair(reserved) for seat in seats} if discovery == "hosts" else {}
        sites = dict.fromkeys(seat.site for seat in seats) if discovery == "multicast" else {}
        yield Ports(bridges, datagrams, {site: draw_group() for site in sites})
    finally:
        for each in reserved:
            each.close()


def write_configurations(
    ports: Ports, directory: Path, detours: Detours = DIRECT, overrides: Mapping[str, Any] | None = None
) -> dict[Seat, Path]:
    """The configuration file of each member in `directory`. What `overrides` says wins."""
    files = {}
    for seat in ports.bridges:
        plain = merged(_configuration(seat, ports, detours), overrides or {})
        files[seat] = directory / f"{seat.site}-{seat.name}.yaml"
        files[seat].write_text(json.dumps(plain, indent=2), encoding="utf-8")
    return files


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both, key by key all the way down."""
    both = dict(base)
    for key, value in over.items():
        before = both.get(key)
        both[key] = merged(before, value) if isinstance(before, Mapping) and isinstance(value, Mapping) else value
    return both


def _configuration(seat: Seat, ports: Ports, detours: Detours) -> dict[str, Any]:
    """JSON is YAML."""
    peers: dict[str, list[str]] = {}
    for other, port in ports.bridges.items():
        if other.site != seat.site:
            peers.setdefault(other.site, []).append(f"{LOOPBACK}:{detours.bridges.get((seat, other), port)}")
    ours = {other: port for other, port in ports.datagrams.items() if other.site == seat.site}
    return {
        "site": seat.site,
        "name": seat.name,
        "transport": _transport(seat, ports, detours),
        "discovery": {"initial_hosts": [f"{LOOPBACK}:{detours.datagrams.get(other, port)}" for other, port in ours.items()]},
        "relay": {"bridge": {"bind": f"{LOOPBACK}:{ports.bridges[seat]}", "peers": peers}},
    }


def _transport(seat: Seat, ports: Ports, detours: Detours) -> dict[str, Any]:
    """With multicast one group for the site; else a port for each member."""
    if seat.site in ports.groups:
        group, port = ports.groups[seat.site]
        return {"interface": LOOPBACK, "multicast_group": group, "multicast_port": port}
    plain = {"interface": LOOPBACK, "multicast": False, "port": ports.datagrams[seat]}
    if seat in detours.datagrams:
        plain |= {"external_host": LOOPBACK, "external_port": detours.datagrams[seat]}
    return plain


def draw_group() -> tuple[str, int]:
    """A multicast group and port that hardly anybody else has drawn, so that runs at one time do not meet."""
    system = random.SystemRandom()
    group = f"239.{system.randint(192, 195)}.{system.randint(0, 255)}.{system.randint(1, 254)}"
    return group, system.randint(*_GROUP_PORTS)


def _reserve_pair(reserved: list[socket.socket]) -> int:
    """A port that is reserved in TCP and at this moment free in UDP, where a port cannot be bound twice."""
    while True:
        port = _reserve(reserved)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def _reserve(reserved: list[socket.socket]) -> int:
    """A free TCP port. As long as the socket stays in `reserved` and open, the system gives it to nobody who asks for any.

    It is bound and not listened on, so that whoever reuses addresses can bind it and listen, as the bridge does and members do.
    """
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.append(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((LOOPBACK, 0))
    port: int = sock.getsockname()[1]
    return port
