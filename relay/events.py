"""What package `relay` adds to the events of a stack: what the application and the shell hear, what the shell says.

The gateway lives inside the relay layer, so everything enters and leaves through the stack: the shell hands in what happened to
its TCP connections with `Stack.down` and finds what it has to do about them (`BridgeEffect`) among the effects of a `Turn`.
Connections are named by numbers that the shell chooses and never uses twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import ClassVar

from sitestack.model.address import Address, Physical, ProxyUUID
from sitestack.model.events import Event, ShellEffect
from sitestack.model.message import Scope
from sitestack.model.view import ViewId


@dataclass(frozen=True, slots=True)
class GlobalView(Event):
    """The members of all living sites. Equal components mean equal members in equal order, everywhere (G2)."""

    in_stream: ClassVar[bool] = True
    #: One view a living site, in order of the sites' names; no component ever goes back (G3).
    components: dict[str, ViewId]
    #: By site, then rank. Members of one's own site are proxies here too, so that the list is the same everywhere.
    members: tuple[ProxyUUID, ...]
    #: The logical name of each member.
    names: tuple[str, ...]
    #: Sites that were there and have been without a link for longer than the grace time, in order of their names.
    down: tuple[str, ...] = ()
    #: Sites that the last global view did not have: the first contact with them, or a healed bridge. It joins what had been
    #: apart, as a merge view does inside a site (REL-25). It is each member's own, and no part of what members agree on.
    joined: tuple[str, ...] = field(default=(), compare=False)

    def named(self) -> Iterator[tuple[Address, str]]:
        """Each member, and its `name@site`."""
        for member, name in zip(self.members, self.names, strict=True):
            yield member, f"{name}@{member.site}"

    def name_of(self, member: Address) -> str:
        """`name@site` of a member, or how a stranger prints itself (REL-30)."""
        return next((name for each, name in self.named() if each == member), str(member))


@dataclass(frozen=True, slots=True)
class Gap(Event):
    """These messages of scope ALL will never be delivered here: their site no longer holds them (R21, X5).

    `reason` is `budget`, `too_large` or `not_held`, as in `RemoteGap`.
    """

    in_stream: ClassVar[bool] = True
    site: str
    origin: Address
    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Baseline(Event):
    """Where this site's knowledge of another begins: of each origin, what comes after the number (R29)."""

    in_stream: ClassVar[bool] = True
    site: str
    origins: dict[Address, int]


class Certainty(Enum):
    """What is known about a unicast that failed. When in doubt it is UNKNOWN."""

    #: It was certainly never delivered.
    NOT_DELIVERED = "not_delivered"
    #: It may have been delivered.
    UNKNOWN = "unknown"


class Failure(StrEnum):
    """Why a unicast was given up."""

    #: No part of its site has the target.
    NO_MEMBER = "no_member"
    #: No frame of the link can hold it.
    TOO_LARGE = "too_large"
    #: There was no room for it at its origin.
    QUEUE_FULL = "queue_full"
    #: It was not acknowledged for too long.
    TIMEOUT = "timeout"
    #: Its origin has left.
    LEFT = "left"
    #: Its target is in the own site, and has not acknowledged it.
    UNACKNOWLEDGED = "unacknowledged"


@dataclass(frozen=True, slots=True)
class Unreachable(Event):
    """Unicasts of mine were given up."""

    target: ProxyUUID
    first: int
    last: int
    reason: Failure
    certainty: Certainty
    #: UNICAST or OOB: which of the target's counters numbers them.
    scope: Scope = Scope.UNICAST


class Duty(Enum):
    """What a member does for its site."""

    #: Neither coordinates nor relays.
    MEMBER = "member"
    #: Coordinates, and has no link to another site.
    COORDINATOR = "coord"
    #: Coordinates, and has links to other sites.
    RELAY = "relay"


@dataclass(frozen=True, slots=True)
class Role(Event):
    """The duty of this member or the sites that it is linked to changed."""

    duty: Duty
    epoch: ViewId
    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pacing(Event):
    """Senders of relayed multicasts wait for these sites; for none: they go on."""

    sites: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SlowSite(Event):
    """A site is too slow to be waited for, so what exceeds the budget becomes a gap there; or it is not any more."""

    in_stream: ClassVar[bool] = True
    site: str
    is_slow: bool


@dataclass(frozen=True, slots=True)
class Misconfigured(Event):
    """A peer or the own list of peers cannot be right, and trying again will not help: `sentence` is for the operator."""

    site: str
    sentence: str


# -- from the shell ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BridgeConnected(Event):
    """Down: a TCP (TLS) connection is ready for use."""

    connection: int
    #: The site and address that were dialed; None for a connection that was accepted.
    dialed: tuple[str, Physical] | None = None
    #: The site that the peer's certificate names (C9), None when there is none.
    certified: str | None = None


@dataclass(frozen=True, slots=True)
class BridgeReceived(Event):
    """Down: bytes came in, cut anywhere. The shell never stops reading."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class BridgeWritten(Event):
    """Down: the last `BridgeSend` of this connection has been handed to the kernel; the next one may come."""

    connection: int


@dataclass(frozen=True, slots=True)
class BridgeClosed(Event):
    """Down: the connection has ended, for whatever reason other than a `BridgeClose`."""

    connection: int


@dataclass(frozen=True, slots=True)
class DialFailed(Event):
    """Down: nobody answered."""

    site: str
    address: Physical


# -- to the shell ------------------------------------------------------------------------------------------------------


class BridgeEffect(ShellEffect):
    """Base of what the shell has to do about the bridge; carried out in order."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Listen(BridgeEffect):
    """Accept connections from now on: this member relays (REL-11)."""


@dataclass(frozen=True, slots=True)
class StopListening(BridgeEffect):
    """Accept no more connections."""


@dataclass(frozen=True, slots=True)
class Dial(BridgeEffect):
    """Connect; answered by `BridgeConnected` or `DialFailed`."""

    site: str
    address: Physical


@dataclass(frozen=True, slots=True)
class BridgeSend(BridgeEffect):
    """Write these bytes, then say `BridgeWritten`. At most one write of a connection is under way (a farewell excepted)."""

    connection: int
    data: bytes


@dataclass(frozen=True, slots=True)
class BridgeClose(BridgeEffect):
    """Close, after what was sent has left or a short while has passed. Nothing more of it is to be handed in."""

    connection: int
    reason: str


BRIDGE_EFFECTS: tuple[type[BridgeEffect], ...] = (Listen, StopListening, Dial, BridgeSend, BridgeClose)
