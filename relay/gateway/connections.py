"""Connections between relays: what names one, where it leads, and what a gateway does about it.

There are two kinds. The shell makes TCP connections and numbers them; a route (`routes.py`) is made of pieces on the links to
other sites, for two sites that have no TCP connection. A link session talks over either without knowing which it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from sitestack.model.address import Address, Physical
from sitestack.stack.layer import Effect


class RouteId(NamedTuple):
    """A route, the same at both of its ends: the relay that opened it, and how many that one had opened by then."""

    opener: Address
    number: int


#: A TCP connection, by the number that the shell gave it (`relay/events.py`), or a route.
ConnectionId = int | RouteId


class Via(NamedTuple):
    """Where a site is found that this one has no TCP connection with: by way of that neighbour."""

    neighbour: str

    def __str__(self) -> str:
        return f"the end of the route by way of {self.neighbour}"


#: Where the relay of a site may be found.
Place = Physical | Via


class Ending(StrEnum):
    """Why this end closes a connection that has done no wrong; the peer hears it in the farewell."""

    #: This member does not relay, or no more, or there are too many connections.
    NOT_RELAY = "not_relay"
    LEAVING = "leaving"
    LEFT = "left"
    #: This side is of another lineage now.
    LINEAGE = "lineage"
    #: The parts of this side have become one.
    MERGED = "merged"
    #: The peer's lineage has another link.
    SUPERSEDED = "superseded"
    #: A merge has ended the peer's lineage.
    ENDED = "ended"
    #: More waits to be sequenced here than may.
    OVERRUN = "overrun"


@dataclass(frozen=True, slots=True)
class Call:
    """Connect to a relay of that site."""

    site: str
    place: Place


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes; at most one write of a connection is under way (a farewell excepted)."""

    connection: ConnectionId
    data: bytes


@dataclass(frozen=True, slots=True)
class Close:
    """Close, after what was sent has left or a short while has passed."""

    connection: ConnectionId
    reason: str


#: What a gateway wants done. Of the first three, those about TCP are for the shell (`BridgeEffect`), the others for `Routes`.
LinkEffect = Call | Send | Close | Effect
