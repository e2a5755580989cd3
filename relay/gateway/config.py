from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sitestack.model.address import Physical


@dataclass(frozen=True, slots=True)
class LinkConfig:
    """One link (`LinkPolicy.link`). HELLO announces the limits."""

    #: Maximum time from connecting to the peer's HELLO (C17), which takes a round trip; its STATE must follow
    #: within `timeout_s`.
    hello_s: float = 3.0
    #: Time without traffic after which a heartbeat is sent.
    heartbeat_s: float = 1.0
    #: Silence after which the link is closed (F24).
    timeout_s: float = 3.0
    #: Time for which the kernel may leave a chunk unsent before the link is closed.
    write_s: float = 10.0
    #: Time in which a frame must arrive once begun, plus as much for each `chunk_bytes` of it.
    frame_s: float = 10.0
    #: Least time between two STATEs that ask for a replay after a hole.
    resync_s: float = 0.2
    #: Bytes sent and not yet stable at the peer. Grows with the rate and the round trip, up to half of
    #: `relay.budget.bytes`.
    window_bytes: int = 8 * 1024 * 1024
    #: Bytes written to the socket at once; a heartbeat waits for one chunk at most. Should hold several full
    #: batches, and less than the slowest link carries within `write_s`.
    chunk_bytes: int = 256 * 1024
    #: Largest frame sent or accepted. A larger batch becomes a gap; a larger unicast fails.
    frame_bytes_max: int = 16 * 1024 * 1024
    #: Unicasts queued for the link; below it one more of any size is accepted, above it unicasts are refused
    #: and their origins retry.
    unicast_bytes_max: int = 4 * 1024 * 1024
    #: Compression of chunks that shrink, with the package zstandard, if both ends have it.
    compress: Literal["zstd"] | None = None
    #: Maximum bytes written a second, after compression. Unset: no limit.
    rate_max_bytes_s: int | None = None
    #: Pieces of routes queued for the link; beyond, a route is ended and opened again. Must exceed the window
    #: of a route plus a frame.
    routed_bytes_max: int = 32 * 1024 * 1024

    @property
    def decompressed_bytes_max(self) -> int:
        """Bytes of the largest compressed chunk accepted: a chunk, and a frame that it ends with; 0 without compression."""
        return 0 if self.compress is None else 2 * self.chunk_bytes


@dataclass(frozen=True, slots=True)
class LinkPolicy:
    """Policy towards the other sites. All members of a site must have the same values."""

    #: Time for which a site without a link stays in the global view; should exceed a failover (G6).
    grace_s: float = 10.0
    #: Least pace of a site that lags by the whole budget. Relayed multicasts wait for it; for a slower site
    #: they wait no longer than `grace_s`.
    pace_min_bytes_s: int = 64 * 1024
    #: For a site that is down or below the least pace, when the budget is used up. gap (the default): the
    #: oldest messages become a gap there. wait: relayed multicasts wait without limit.
    when_down: dict[str, Literal["gap", "wait"]] = field(default_factory=dict)
    #: For a site, seconds without a link after which the relay takes it offline, as `relay site offline` does. It
    #: counts only sites that were linked, and anew at each failover. Needs `membership.when_split: majority`.
    offline_after_s: dict[str, float] = field(default_factory=dict)
    #: First pause between two calls of an address; it doubles up to `dial_s_max`, with jitter.
    dial_s: float = 0.2
    #: Longest pause between two calls of an address.
    dial_s_max: float = 5.0
    #: Each link to the relay of another site. The ends may differ: the smaller window and frame apply. Only
    #: `heartbeat_s` must be much shorter than the other end's `timeout_s`.
    link: LinkConfig = field(default_factory=LinkConfig)


@dataclass(frozen=True, slots=True)
class GatewayConfig(LinkPolicy):
    """Links to the other sites."""

    #: Addresses of the possible relays of each neighbour: all its members, or a service before
    #: them.
    peers: dict[str, tuple[Physical, ...]] = field(default_factory=dict)
    #: Connections accepted by this relay at once, also before HELLO. Its own calls (one per address) and routes
    #: (`ROUTES_PER_SITE_MAX`) do not count.
    connections_max: int = 64
    #: Bytes from other sites queued for sequencing; a link that exceeds it is closed and replays later.
    waiting_bytes_max: int = 64 * 1024 * 1024

    def window_bytes_max(self, budget_bytes: int) -> int:
        """Return the largest window of a link, in either direction, so that all neighbours together send no more
        than may wait here.
        """
        fair = self.waiting_bytes_max // max(1, len(self.peers))
        return min(max(self.link.window_bytes, budget_bytes // 2), fair)


@dataclass(frozen=True, slots=True)
class RoutesConfig:
    """Sites without a direct connection.

    Both ends of a route set `via`, sites between set `forward`.
    """

    #: For each site without a connection to this one, the peer that is next on the way to it.
    via: dict[str, str] = field(default_factory=dict)
    #: The sites between which this one forwards pieces of routes.
    forward: tuple[str, ...] = ()
