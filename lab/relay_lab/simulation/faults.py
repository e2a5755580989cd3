"""Faults of a simulated world as plain data, so that a plan can be stored, and shrunk by leaving some out.

In all of them `at` is the time in virtual seconds after the start of the load, `site` a name, and
`rank` a place in the site's view at that time; 0 is the coordinator; a rank beyond the end means the last member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from relay_lab.simulation.grey_faults import GreyFault
from sitestack.stack.turn import Step


@dataclass(frozen=True, slots=True)
class Kill:
    """A process dies, as by kill -9, and perhaps another starts at its address."""

    at: float
    site: str
    rank: int
    #: Datagrams that the process still sends before it dies.
    datagrams: int
    #: Seconds until a new process starts at the same physical address; None for never.
    restart_after: float | None
    #: If given, the process dies right before this step of the first turn in which the step has
    #: work.
    before: Step | None = None


@dataclass(frozen=True, slots=True)
class Replace:
    """A process dies, and another takes its address at once, before any member has noticed (F31, A3)."""

    at: float
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class Leave:
    """A process leaves gracefully, and perhaps another starts at its address."""

    at: float
    site: str
    rank: int
    restart_after: float | None = None


@dataclass(frozen=True, slots=True)
class Move:
    """A process moves to another address, as when a network interface fails over (F42, A1)."""

    at: float
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class CutStream:
    """Every open bridge connection breaks, somewhere in the middle of its bytes."""

    at: float
    #: Only connections between these two sites; None for all.
    between: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Burst:
    """Nothing arrives inside any site for a while."""

    at: float
    length: float


@dataclass(frozen=True, slots=True)
class Split:
    """A site is partitioned for a while: the first hosts do not reach the others, nor, unless `one_way`, the reverse."""

    at: float
    length: float
    site: str
    #: Hosts on the first side, in order of their numbers.
    hosts: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """A process is stopped for a while, as by SIGSTOP and SIGCONT."""

    at: float
    length: float
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class WanCut:
    """No bytes pass between two sites for a while, in both directions or in one; nothing is reported either."""

    at: float
    length: float
    one_way: bool
    #: The two sites; None for any two.
    between: tuple[str, str] | None = None
    #: Affected hosts of the first site, in order of their numbers; None: all.
    hosts: int | None = None


@dataclass(frozen=True, slots=True)
class RouterDies:
    """The gossip router between two sites dies, and restarts later."""

    at: float
    length: float
    between: tuple[str, str]


@dataclass(frozen=True, slots=True)
class PeerRemoved:
    """The members of a site reload their files without a peer, and later with it."""

    at: float
    length: float
    site: str
    peer: str
    #: Seconds between the reloads of two members.
    apart_s: float


@dataclass(frozen=True, slots=True)
class SlowWan:
    """Traffic between all sites is late for a while, and optionally limited in rate (F26)."""

    at: float
    length: float
    delay_s: float
    #: In each direction of a connection; None: no limit.
    bytes_per_s: float | None
    #: Seconds of data that the route buffers.
    queue_s: float


@dataclass(frozen=True, slots=True)
class Reset:
    """Two members exchange unicasts over a bad wire, and half-way forget their unicast connection (U1, U3, U4, U6)."""

    at: float
    length: float
    site: str
    rank: int
    #: The rank of the other member.
    peer: int
    #: Unicasts from the first member to the second, about half of them after the reset.
    messages: int
    #: Which end forgets the connection.
    closer: Literal["sender", "receiver", "both"]
    #: The share of datagrams between the two that is lost.
    loss: float
    #: Half of the other datagrams are late by up to this many seconds.
    late_s: float


@dataclass(frozen=True, slots=True)
class Flood:
    at: float
    length: float
    site: str
    messages: int
    unicast_share: float
    #: Largest message in bytes; None: as large as the plan's other messages.
    size_max: int | None = None


WholeFault = (
    Kill
    | Replace
    | Leave
    | Move
    | CutStream
    | Burst
    | Split
    | Pause
    | WanCut
    | RouterDies
    | PeerRemoved
    | SlowWan
    | Reset
    | Flood
)
Fault = WholeFault | GreyFault


def sites_of(fault: Fault) -> tuple[str, ...]:
    """Return the sites that a fault names: one, two, or none."""
    if isinstance(fault, PeerRemoved):
        return fault.site, fault.peer
    site, between = getattr(fault, "site", None), getattr(fault, "between", None)
    return (site,) if site is not None else between or ()
