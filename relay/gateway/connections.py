"""Connections between relays: ids, places, and the effects with which a gateway uses them.

The shell makes and numbers TCP connections. A route (`routes.py`) replaces one between sites that
cannot connect: its bytes travel in pieces over links of other sites. A session treats both alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sitestack.model.address import Address, Physical
from sitestack.model.fast_frozen import fast_frozen
from sitestack.stack.layer import Effect


class RouteId(NamedTuple):
    """Id of a route, the same at both ends: the relay that opened it, and its counter."""

    opener: Address
    number: int


#: Id of a connection: the shell's number of a TCP connection (`relay/events.py`), or a route's id.
ConnectionId = int | RouteId


class Via(NamedTuple):
    """The place of a site that is reached through a neighbour."""

    neighbour: str

    def __str__(self) -> str:
        return f"the end of the route by way of {self.neighbour}"


#: A possible place of a site's relay.
Place = Physical | Via


class Ending(StrEnum):
    """Reason why this end closes a connection without an error of the peer; BYE carries it."""

    #: This member does not relay, or has too many connections.
    NOT_RELAY = "not_relay"
    #: This member leaves its site.
    LEAVING = "leaving"
    #: This member has left its site.
    LEFT = "left"
    #: This site continues in another lineage.
    LINEAGE = "lineage"
    #: The parts of this site have merged.
    MERGED = "merged"
    #: The peer's lineage has a newer link.
    SUPERSEDED = "superseded"
    #: A merge of the peer's site has ended the peer's lineage.
    ENDED = "ended"
    #: The peer's site is no longer in this member's configuration.
    REMOVED = "removed"
    #: An operator of this site has taken the peer's site offline.
    OFFLINE = "offline"
    #: More bytes than `waiting_bytes_max` wait to be sequenced in this site.
    OVERRUN = "overrun"


@dataclass(frozen=True, slots=True)
class Call:
    """Connect to the relay of a site at this place."""

    site: str
    place: Place


@fast_frozen
@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes. A connection has one write under way at most, except for a BYE."""

    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once all its bytes are sent, or after a short while."""

    connection: ConnectionId
    reason: str


#: Effects of a gateway. `Call`, `Send` and `Close` go to the shell (`BridgeEffect`) for TCP
#: connections, to `Routes` for routes.
LinkEffect = Call | Send | Close | Effect
