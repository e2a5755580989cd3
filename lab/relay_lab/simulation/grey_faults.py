"""Grey faults: some function fails for a while.

All processes stay alive, and most of the network works, so an answer does not prove that a member is healthy.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hole:
    """Two members do not reach each other, or only one way, while all other members reach both."""

    at: float
    length: float
    site: str
    rank: int
    #: The rank of the other member; nothing gets there, nor, unless `one_way`, back.
    peer: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class SmallOnly:
    """Datagrams above the size limit of a wire are lost on their way to a member, and small ones pass: a wrong MTU."""

    at: float
    length: float
    site: str
    rank: int
    #: The rank of the only member whose large datagrams are lost; None: those of all.
    peer: int | None
    bytes_max: int


@dataclass(frozen=True, slots=True)
class NarrowWire:
    """A member's wire has a low rate, each way, and a short queue."""

    at: float
    length: float
    site: str
    rank: int
    bytes_per_s: float
    #: A datagram is lost when more than this waits before it.
    queue_bytes: int


@dataclass(frozen=True, slots=True)
class SlowApplication:
    """A member's application reads few bytes a second, or none."""

    at: float
    length: float
    site: str
    rank: int
    bytes_per_s: float
    #: As in `Leave`: its member leaves when it takes nothing for too long.
    restart_after: float | None = None


@dataclass(frozen=True, slots=True)
class LateLetters:
    """The members of a site send unicasts to processes that are not there any more, in their own site and in others."""

    at: float
    length: float
    site: str
    messages: int


@dataclass(frozen=True, slots=True)
class FailingDisk:
    """A member's disk fails to write for a while, and perhaps to read."""

    at: float
    length: float
    site: str
    rank: int
    is_unreadable: bool


@dataclass(frozen=True, slots=True)
class DeadInterface:
    """One of the two interfaces of a member carries nothing, or of all members: a dead switch."""

    at: float
    length: float
    site: str
    #: None: of all members.
    rank: int | None
    network: int


GreyFault = Hole | SmallOnly | NarrowWire | SlowApplication | LateLetters | FailingDisk | DeadInterface
