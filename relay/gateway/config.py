"""How a gateway, its links and its routes are configured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One link. The two ends may differ: each says in HELLO what it takes, and the smaller window and frame count for both.

    Only `heartbeat_s` must be much shorter than the other end's `timeout_s`.
    """

    #: Seconds after the connection was made within which the peer must say HELLO (C17), and STATE `timeout_s` later. The end
    #: that has called hears HELLO a round trip after connecting, so no link comes up over a longer round trip than this.
    hello_s: float = 3.0
    #: Seconds after which a heartbeat is sent when nothing else was.
    heartbeat_s: float = 1.0
    #: Seconds of silence after which the link is closed (F24).
    timeout_s: float = 3.0
    #: Seconds for which the kernel may leave a chunk before the link is closed.
    write_s: float = 10.0
    #: Seconds within which a frame that has begun must have come, and as many again for each `chunk_bytes` of it: the pace that
    #: `write_s` asks of the sending end.
    frame_s: float = 10.0
    #: Least seconds between two STATEs that ask for a replay after a hole.
    resync_s: float = 0.2
    #: Bytes that may be sent without being stable at the peer; should exceed the rate times the round trip.
    window_bytes: int = 8 * 1024 * 1024
    #: Bytes handed to the socket at once; a heartbeat may have to wait for as many. Each takes a turn, so it should be some
    #: full batches; and less than the slowest link carries within `write_s`.
    chunk_bytes: int = 256 * 1024
    #: Bytes of the largest frame that is taken or sent. A larger batch becomes a gap, a larger unicast fails at its sender.
    frame_bytes_max: int = 16 * 1024 * 1024
    #: Bytes of unicasts that wait for the link. Below it the link takes one more of any size that fits into a frame; above it
    #: unicasts are refused, and their origins try again.
    unicast_bytes_max: int = 4 * 1024 * 1024
    #: Bytes of pieces of routes that wait for the link; beyond, a route is ended and opened again. Must exceed the window of a
    #: route plus a frame.
    routed_bytes_max: int = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """How this site treats the other sites. All members of a site must have the same values."""

    #: Seconds for which a site without a link stays in the global view; should be longer than a failover takes (G6).
    grace_s: float = 10.0
    #: Least pace of a site, bytes a second. Relayed multicasts wait for a site that lags by the whole budget, no longer than
    #: `grace_s` for one that acknowledges less than this.
    pace_min_bytes_s: int = 64 * 1024
    #: For each other site, what happens when it is down, or below the least pace, and the budget is used up. gap (the default):
    #: the oldest messages become a gap there. wait: relayed multicasts wait for the site without limit.
    when_down: dict[str, Literal["gap", "wait"]] = field(default_factory=dict)
    #: First pause between two calls of an address; it doubles up to `dial_s_max`, with jitter.
    dial_s: float = 0.2
    #: Longest pause between two calls of an address.
    dial_s_max: float = 5.0
    #: Each link to the relay of another site. The two ends may differ: each says in HELLO what it takes, and the smaller window
    #: and frame count for both. Only `heartbeat_s` must be much shorter than the other end's `timeout_s`.
    link: LinkConfig = field(default_factory=LinkConfig)


@dataclass(frozen=True, slots=True)
class GatewayConfig(LinkPolicy):
    """Links to the other sites. All members of a site must have the same values."""

    #: Addresses at which the relay of each neighbour may be: those of all its members, or of a service in front of them.
    peers: dict[str, tuple[Physical, ...]] = field(default_factory=dict)
    #: Simultaneous connections that others made to this relay, also without a HELLO yet. This relay's own calls (one per
    #: address) and routes (`ROUTES_PER_SITE_MAX`) do not count, so that a flood of connections from outside blocks neither.
    connections_max: int = 64
    #: Bytes from other sites that wait to be sequenced; a link that brings more is closed and replays later.
    waiting_bytes_max: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RoutesConfig:
    """Sites that cannot connect directly. Every site of a route needs it: the ends in `via`, those in between in `forward`."""

    #: For each site without a connection to this one, the peer that is next on the way to it.
    via: dict[str, str] = field(default_factory=dict)
    #: The sites between which this one hands on pieces of routes.
    forward: tuple[str, ...] = ()
