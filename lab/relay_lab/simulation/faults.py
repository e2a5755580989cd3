"""Faults of a simulated world as plain data, so that a plan can be stored, and shrunk by leaving some out.

In all of them `at` is the time in virtual seconds after the start of the load, `length` how long it lasts, `site` a
name, and `rank` a place in the site's view at that time; 0 is the coordinator; a rank beyond the end means the last member.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sitestack.stack.turn import Step


@dataclass(frozen=True, slots=True)
class _Moment:
    at: float


@dataclass(frozen=True, slots=True)
class _Member(_Moment):
    site: str
    rank: int


@dataclass(frozen=True, slots=True)
class _Lasting(_Moment):
    length: float


@dataclass(frozen=True, slots=True)
class _LastingInSite(_Lasting):
    site: str


@dataclass(frozen=True, slots=True)
class _LastingAtMember(_LastingInSite):
    rank: int


@dataclass(frozen=True, slots=True)
class Kill(_Member):
    """A process dies, as by kill -9, and perhaps another starts at its address."""

    #: Datagrams that the process still sends before it dies.
    datagrams: int
    #: Seconds until a new process starts at the same physical address; None for never.
    restart_after: float | None
    #: If given, the process dies right before this step of the first turn in which the step has
    #: work.
    before: Step | None = None


@dataclass(frozen=True, slots=True)
class Replace(_Member):
    """A process dies, and another takes its address at once, before any member has noticed (F31, A3)."""


@dataclass(frozen=True, slots=True)
class Leave(_Member):
    """A process leaves gracefully, and perhaps another starts at its address."""

    restart_after: float | None = None


@dataclass(frozen=True, slots=True)
class Move(_Member):
    """A process moves to another address, as when a network interface fails over (F42, A1)."""


@dataclass(frozen=True, slots=True)
class CutStream(_Moment):
    """Every open bridge connection breaks, somewhere in the middle of its bytes."""

    #: Only connections between these two sites; None for all.
    between: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Burst(_Lasting):
    """Nothing arrives inside any site for a while."""


@dataclass(frozen=True, slots=True)
class Split(_LastingInSite):
    """A site is partitioned for a while: the first hosts do not reach the others, nor, unless `one_way`, the reverse."""

    #: Hosts on the first side, in order of their numbers.
    hosts: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class Pause(_LastingAtMember):
    """A process is stopped for a while, as by SIGSTOP and SIGCONT."""


@dataclass(frozen=True, slots=True)
class WanCut(_Lasting):
    """No bytes pass between two sites for a while, in both directions or in one; nothing is reported either."""

    one_way: bool
    #: The two sites; None for any two.
    between: tuple[str, str] | None = None
    #: Affected hosts of the first site, in order of their numbers; None: all.
    hosts: int | None = None


@dataclass(frozen=True, slots=True)
class RouterDies(_Lasting):
    """The gossip router between two sites dies, and restarts later."""

    between: tuple[str, str]


@dataclass(frozen=True, slots=True)
class PeerRemoved(_LastingInSite):
    """The members of a site reload their files without a peer, and later with it."""

    peer: str
    #: Seconds between the reloads of two members.
    apart_s: float


@dataclass(frozen=True, slots=True)
class SlowWan(_Lasting):
    """Traffic between all sites is late for a while, and optionally limited in rate (F26)."""

    delay_s: float
    #: In each direction of a connection; None: no limit.
    bytes_per_s: float | None
    #: Seconds of data that the route buffers.
    queue_s: float


@dataclass(frozen=True, slots=True)
class Reset(_LastingAtMember):
    """Two members exchange unicasts over a bad wire, and half-way forget their unicast connection (U1, U3, U4, U6)."""

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
class Flood(_LastingInSite):
    messages: int
    unicast_share: float
    #: Largest message in bytes; None: as large as the plan's other messages.
    size_max: int | None = None


# -- grey faults: some function fails, and all processes stay alive ----------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hole(_LastingAtMember):
    """Two members do not reach each other, or only one way, while all other members reach both."""

    #: The rank of the other member; nothing gets there, nor, unless `one_way`, back.
    peer: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class SmallOnly(_LastingAtMember):
    """Datagrams above the size limit of a wire are lost on their way to a member, and small ones pass: a wrong MTU."""

    #: The rank of the only member whose large datagrams are lost; None: those of all.
    peer: int | None
    bytes_max: int


@dataclass(frozen=True, slots=True)
class NarrowWire(_LastingAtMember):
    """A member's wire has a low rate, each way, and a short queue."""

    bytes_per_s: float
    #: A datagram is lost when more than this waits before it.
    queue_bytes: int


@dataclass(frozen=True, slots=True)
class SlowApplication(_LastingAtMember):
    """A member's application reads few bytes a second, or none."""

    bytes_per_s: float
    #: As in `Leave`: its member leaves when it takes nothing for too long.
    restart_after: float | None = None


@dataclass(frozen=True, slots=True)
class LateLetters(_LastingInSite):
    """The members of a site send unicasts to processes that are not there any more, in their own site and in others."""

    messages: int


@dataclass(frozen=True, slots=True)
class FailingDisk(_LastingAtMember):
    """A member's disk fails to write for a while, and perhaps to read."""

    is_unreadable: bool


@dataclass(frozen=True, slots=True)
class DeadInterface(_LastingInSite):
    """One of the two interfaces of a member carries nothing, or of all members: a dead switch."""

    #: None: of all members.
    rank: int | None
    network: int


GreyFault = Hole | SmallOnly | NarrowWire | SlowApplication | LateLetters | FailingDisk | DeadInterface
Fault = (
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
    | GreyFault
)


def sites_of(fault: Fault) -> tuple[str, ...]:
    """Return the sites that a fault names: one, two, or none."""
    if isinstance(fault, PeerRemoved):
        return fault.site, fault.peer
    site, between = getattr(fault, "site", None), getattr(fault, "between", None)
    return (site,) if site is not None else between or ()
