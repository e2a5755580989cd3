"""Who takes part in a drill on this machine, and the configuration of each: addresses, ports and groups of this run alone.

Every member has a file of its own because on one machine each needs a port of its own for the bridge; on real machines one file
serves a site.
"""

from __future__ import annotations

import json
import random
import socket
import string
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

LOOPBACK = "127.0.0.1"
#: Ports of the run's multicast groups: below those that the system gives out by itself.
_GROUP_PORTS = (20_000, 32_000)

Discovery = Literal["multicast", "seeds"]


@dataclass(frozen=True, slots=True)
class Seat:
    """One member: where it belongs and what it is called."""

    site: str
    name: str


def seat_members(sites: Sequence[str], members: int) -> list[Seat]:
    """The members of all sites, site by site: A, B, C in the first, D, E, F in the second, and so on."""
    names = string.ascii_uppercase
    total = len(sites) * members
    labels = list(names[:total]) if total <= len(names) else [f"M{number:03d}" for number in range(1, total + 1)]
    return [Seat(sites[place // members], label) for place, label in enumerate(labels)]


@contextmanager
def configurations(seats: Sequence[Seat], discovery: Discovery, directory: Path) -> Iterator[dict[Seat, Path]]:
    """The configuration file of each member in `directory`; the ports in them are reserved inside the block."""
    reserved: list[socket.socket] = []
    try:
        bridges = {seat: _reserve(socket.SOCK_STREAM, reserved) for seat in seats}
        groups = {site: _site_transport(seats, site, discovery) for site in dict.fromkeys(seat.site for seat in seats)}
        files = {}
        for seat in seats:
            files[seat] = directory / f"{seat.site}-{seat.name}.yaml"
            files[seat].write_text(json.dumps(_configuration(seat, groups[seat.site], bridges), indent=2), encoding="utf-8")
        yield files
    finally:
        for each in reserved:
            each.close()


def _configuration(seat: Seat, transports: Mapping[Seat, dict[str, Any]], bridges: Mapping[Seat, int]) -> dict[str, Any]:
    """JSON is YAML."""
    peers: dict[str, list[str]] = {}
    for other, port in bridges.items():
        if other.site != seat.site:
            peers.setdefault(other.site, []).append(f"{LOOPBACK}:{port}")
    transport = transports[seat]
    seeds = [f"{LOOPBACK}:{other['port']}" for other in transports.values() if "port" in other]
    return {
        "site": seat.site,
        "name": seat.name,
        "transport": transport,
        "discovery": {"seeds": seeds},
        "relay": {"bridge": {"bind": f"{LOOPBACK}:{bridges[seat]}", "peers": peers}},
    }


def _site_transport(seats: Sequence[Seat], site: str, discovery: Discovery) -> dict[Seat, dict[str, Any]]:
    """With multicast one group for the site; else a port for each member."""
    ours = [seat for seat in seats if seat.site == site]
    if discovery == "seeds":
        freed: list[socket.socket] = []
        ports = {seat: _reserve(socket.SOCK_DGRAM, freed) for seat in ours}
        for each in freed:
            each.close()
        return {seat: {"interface": LOOPBACK, "multicast": False, "port": ports[seat]} for seat in ours}
    group, port = draw_group()
    return {seat: {"interface": LOOPBACK, "multicast_group": group, "multicast_port": port} for seat in ours}


def draw_group() -> tuple[str, int]:
    """A multicast group and port that hardly anybody else has drawn, so that runs at one time do not meet."""
    system = random.SystemRandom()
    group = f"239.{system.randint(192, 195)}.{system.randint(0, 255)}.{system.randint(1, 254)}"
    return group, system.randint(*_GROUP_PORTS)


def _reserve(kind: socket.SocketKind, reserved: list[socket.socket]) -> int:
    """A free port. As long as the socket stays in `reserved` and open, the system gives the port to nobody who asks for any.

    A TCP port that is bound and not listened on can still be bound and listened on by whoever reuses addresses, as the bridge
    does; a UDP port cannot.
    """
    sock = socket.socket(socket.AF_INET, kind)
    reserved.append(sock)
    if kind is socket.SOCK_STREAM:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((LOOPBACK, 0))
    port: int = sock.getsockname()[1]
    return port
