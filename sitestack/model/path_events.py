"""The events of path MTU discovery: what large datagrams do not reach. Part of the set in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass

from sitestack.model.address import Address
from sitestack.model.events import Event
from sitestack.model.frame import Frame


@dataclass(frozen=True, slots=True)
class PathDoubt(Event):
    """Travels down from NAKACK and UNICAST: what was sent to this process again and again does not seem to arrive."""

    member: Address
    #: Whether it has ever answered this member. Anybody may name an address; only who answers from there is sent more.
    answers: bool


@dataclass(frozen=True, slots=True)
class SendAlone(Event):
    """Travels down from path MTU discovery to the resolver: send this frame, to a member, in a datagram of its own."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class NarrowPath(Event):
    """Up from path MTU discovery to the shell: datagrams above `bytes_max` do not reach this member. None: they do again."""

    member: Address
    #: Its logical name; the short hex form of its address if it is no member.
    name: str
    bytes_max: int | None
