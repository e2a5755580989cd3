"""Connections between relays: their ids, the places they lead to, and the effects with which a gateway uses them.

There are two kinds. TCP connections are made and numbered by the shell. A route (`routes.py`) replaces one between two sites
that cannot have it: its bytes go in pieces over the links to other sites. A link session cannot tell the two kinds apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sitestack.model.address import Address, Physical
from sitestack.stack.layer import Effect


class RouteId(NamedTuple):
    """Id of a route, the same at both of its ends: the relay that opened it, and a number that this relay counts up."""

    opener: Address
    number: int


#: Id of a connection: the number that the shell gave a TCP connection (`relay/events.py`), or that of a route.
ConnectionId = int | RouteId


class Via(NamedTuple):
    """The place of a site that this one has no TCP connection with: by way of a neighbour."""

    neighbour: str

    def __str__(self) -> str:
        return f"the end of the route by way of {self.neighbour}"


#: Where the relay of a site may be found.
Place = Physical | Via


class Ending(StrEnum):
    """Why this end closes a connection whose peer has made no error; BYE tells the peer."""

    #: This member does not relay, or not any more, or has too many connections.
    NOT_RELAY = "not_relay"
    #: This member leaves its site.
    LEAVING = "leaving"
    #: This member has left its site.
    LEFT = "left"
    #: This site goes on in another lineage.
    LINEAGE = "lineage"
    #: The parts of this site have merged.
    MERGED = "merged"
    #: The peer's lineage has a newer link.
    SUPERSEDED = "superseded"
    #: A merge of the peer's site has ended the peer's lineage.
    ENDED = "ended"
    #: The peer's site is not in this member's configuration any more.
    REMOVED = "removed"
    #: An operator of this site has taken the peer's site offline.
    OFFLINE = "offline"
    #: More bytes wait to be sequenced in this site than `waiting_bytes_max`.
    OVERRUN = "overrun"


@dataclass(frozen=True, slots=True)
class Call:
    """Connect to the relay of a site at this place."""

    site: str
    place: Place


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes; at most one write of a connection is under way (a farewell excepted)."""

    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection as soon as what was sent has left, at the latest after a short while."""

    connection: ConnectionId
    reason: str


#: Effects of a gateway. `Call`, `Send` and `Close` of TCP connections go to the shell (`BridgeEffect`), of routes to `Routes`.
LinkEffect = Call | Send | Close | Effect
