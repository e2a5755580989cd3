"""Grey faults: a part of something does not work, and goes on not to work for a while.

Whole faults (`faults.py`) take a process or a route away. These leave all processes alive and most of the network working, so
that nobody can be told from a healthy one by whether it answers at all. What is said there of fields holds here too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hole:
    """Two members do not reach each other, or one does not reach the other, while everybody else reaches both."""

    at: float
    length: float
    site: str
    rank: int
    #: The rank of the other member; nothing gets there, nor, unless `one_way`, back.
    peer: int
    one_way: bool


@dataclass(frozen=True, slots=True)
class SmallOnly:
    """Larger datagrams than a wire is said to carry vanish on their way to a member, and small ones pass: a wrong MTU."""

    at: float
    length: float
    site: str
    rank: int
    #: The only member from which large datagrams vanish, by its rank; None: from everybody.
    peer: int | None
    bytes_max: int


@dataclass(frozen=True, slots=True)
class NarrowWire:
    """A member's wire carries few bytes a second, each way, and what does not fit into the queue before it is lost."""

    at: float
    length: float
    site: str
    rank: int
    bytes_per_s: float
    #: A datagram is lost when more than this waits before it.
    queue_bytes: int


@dataclass(frozen=True, slots=True)
class SlowApplication:
    """The application of a member takes few bytes a second of what is delivered to it, or nothing."""

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
    """The disk of a member takes nothing for a while, and perhaps gives nothing back."""

    at: float
    length: float
    site: str
    rank: int
    is_unreadable: bool


GreyFault = Hole | SmallOnly | NarrowWire | SlowApplication | LateLetters | FailingDisk
