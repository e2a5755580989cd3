"""Connections between relays: ids, places, and the effects with which a gateway uses them.

The shell makes and numbers TCP connections. A route (`routes.py`) replaces one between sites that
cannot connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sitestack.model.address import Address, Physical
from sitestack.model.fast_frozen import fast_frozen
from sitestack.stack.layer import Effect


class RouteId(NamedTuple):
    """Id of a route: the relay that opened it and its counter, the same at both ends, and the far end's site."""

    opener: Address
    number: int
    site: str


#: Id of a connection: the shell's number of a TCP connection (`relay/events.py`), or a route's id.
ConnectionId = int | RouteId


class Via(NamedTuple):
    """The place of a site that is reached through a neighbour."""

    neighbour: str

    def __str__(self) -> str:
        return f"the end of the route by way of {self.neighbour}"


Place = Physical | Via


class Ending(StrEnum):
    """Reason why this end closes a connection without an error of the peer; BYE carries it."""

    #: This member does not relay, or has too many connections.
    NOT_RELAY = "not_relay"
    LEAVING = "leaving"
    LEFT = "left"
    #: This site continues in another lineage.
    LINEAGE = "lineage"
    #: The parts of this site have merged.
    MERGED = "merged"
    #: The peer's lineage has a newer link.
    SUPERSEDED = "superseded"
    #: A merge of the peer's site has ended the peer's lineage.
    ENDED = "ended"
    REMOVED = "removed"
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
    """Write these bytes; one write at a time, except for a BYE."""

    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once all its bytes are sent, or after a short while."""

    connection: ConnectionId
    reason: str


#: Effects of a gateway. `Call`, `Send` and `Close` go to the shell for TCP connections, to `Routes`
#: for routes.
LinkEffect = Call | Send | Close | Effect
