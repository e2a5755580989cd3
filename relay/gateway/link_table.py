"""LinkTable: the connections of this site's relay, and which of them is the link to each lineage of another site.

Links are keyed by (site, lineage), since two parts of a split site may relay at the same time, each legitimately (R10).
`Peering` decides which connections are accepted and when they end; a `LinkSession` speaks the protocol on each connection.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from relay.gateway.config import LinkConfig
from relay.gateway.connections import Close, ConnectionId, LinkEffect, Place, RouteId, Send
from relay.gateway.session import LinkSession, Overdue
from relay.gateway.watermarks import Admitted, Watermarks
from relay.gateway.wire import VERSION, ForOne, Hello, Routed
from relay.replica.entries import SiteVector, UnicastRefusal
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: Window of a link over a route (`relay/gateway/routes.py`): bytes that may wait at the sites in between.
ROUTE_WINDOW_BYTES = 1024 * 1024

Key = tuple[str, ViewId]


@dataclass(slots=True)
class Connection:
    """One connection, and how it was made."""

    session: LinkSession
    #: The site and place that this side called; None when it accepted.
    dialed: tuple[str, Place] | None
    #: The site proven by the peer's TLS certificate, or for a route the site at its far end; None without a proof.
    certified: str | None

    def key(self) -> Key | None:
        """The (site, lineage) that this connection is the link to; None before it is accepted."""
        peer = self.session.peer
        return (peer.site, peer.lineage) if peer is not None and self.session.accepted else None

    @property
    def site(self) -> str:
        """The site of which the other end is a relay, or should be; empty while nobody knows."""
        peer = self.session.peer
        return peer.site if peer is not None else self.dialed[0] if self.dialed is not None else ""


class LinkTable:
    """Table of the connections. Bounds: `Peering` limits their number, `LinkConfig` what each of them holds."""

    def __init__(
        self,
        local: Local,
        config: LinkConfig,
        state: ReplicatedState,
        watermarks: Watermarks,
        going_down: Container[Key],
    ) -> None:
        """`going_down`: lineages that an entry on its way takes out of the global view (`Grace`)."""
        #: All connections, including those that are not a link yet.
        self.connections: dict[ConnectionId, Connection] = {}
        #: The connection that is the link to each lineage.
        self.links: dict[Key, ConnectionId] = {}
        self._local = local
        self._config = config
        self._state = state
        self._watermarks = watermarks
        self._going_down = going_down
        self._made = 0
        #: The connections that may have something to send: `fill` looks at no others.
        self._touched: dict[ConnectionId, None] = {}

    # -- from HELLO to BYE ---------------------------------------------------------------------------------------------

    def greet(
        self, connection: ConnectionId, dialed: tuple[str, Place] | None, certified: str | None, view: View, now: float
    ) -> None:
        """A connection is ready: begin a session, which says HELLO at once."""
        self._made += 1
        local, config = self._local, self._config
        window = min(config.window_bytes, ROUTE_WINDOW_BYTES if isinstance(connection, RouteId) else 1 << 62)
        frame_max = config.frame_bytes_max
        hello = Hello(VERSION, local.site, view.lineage, view.id, local.address, local.name, self._made, window, frame_max)
        session = LinkSession(hello, self._state, self._watermarks, config, now)
        self.connections[connection] = Connection(session, dialed, certified)
        self.touch(connection)

    def accept(self, connection: ConnectionId, key: Key) -> None:
        """This connection is the link to a lineage from now on."""
        self.links[key] = connection
        self.touch(connection)
        self.connections[connection].session.accept(self._admitted(key), self._watermarks.stable_vector(*key))

    def _admitted(self, key: Key) -> SiteVector | None:
        """What STATE says. A view that is about to be hidden is asked for again, to come before what follows it (G5)."""
        vector = self._state.admitted_vector(*key)
        return vector if vector is None or key not in self._going_down else SiteVector(vector.origins)

    def farewell(self, connection: ConnectionId, reason: str) -> list[LinkEffect]:
        """Say BYE, unless the connection ends inside a frame, and close the connection."""
        farewell = self.connections[connection].session.farewell(reason)
        return [*([Send(connection, farewell)] if farewell else []), Close(connection, reason)]

    def forget(self, connection: ConnectionId) -> tuple[Connection, Key | None]:
        """A connection has ended. Returns it, and the (site, lineage) that thereby has no link any more, or None."""
        gone = self.connections.pop(connection)
        self._touched.pop(connection, None)
        key = gone.key()
        if key is None or self.links.get(key) != connection:
            return gone, None
        del self.links[key]
        return gone, key

    # -- what a connection is told ------------------------------------------------------------------------------------

    def touch(self, connection: ConnectionId) -> None:
        """Something about this connection has changed: have `fill` look at it."""
        self._touched[connection] = None

    def touch_all(self) -> None:
        """More of the stream may be sent, on any connection: have `fill` look at all."""
        self._touched = dict.fromkeys(self.connections)

    def written(self, connection: ConnectionId) -> bool:
        """The last chunk of this connection is written: the next one may follow. Returns whether there may be one."""
        if connection not in self.connections:
            return False
        self.touch(connection)
        return self.connections[connection].session.written()

    def resync(self, site: str) -> None:
        """Something that a site has sent is missing here: say STATE on each link to it, so that it replays from there."""
        for connection in self._linked(site):
            self.connections[connection].session.report_hole()
            self.touch(connection)

    def send_unicast(self, site: str, member: Address, frame: ForOne) -> UnicastRefusal | None:
        """Queue a unicast, or an answer, on the link to the part of `site` with this `member`, else on any to the site.

        Return why that is not possible, or None.
        """
        remote = self._state.remotes.get(site)
        parts = [] if remote is None else remote.lineages_of(member)
        links = [self.links[site, part] for part in parts if (site, part) in self.links]
        connection = next(iter(links or self._linked(site)), None)
        if connection is None:
            return UnicastRefusal.NO_LINK
        self.touch(connection)
        return self.connections[connection].session.send_unicast(frame)

    def send_routed(self, connection: ConnectionId, piece: Routed) -> bool:
        """Queue a piece of a route; False when there is no room for it."""
        self.touch(connection)
        return self.connections[connection].session.send_routed(piece)

    # -- who is linked -------------------------------------------------------------------------------------------------

    def sites(self) -> tuple[str, ...]:
        """The linked sites, in order of their names."""
        return tuple(sorted({site: None for site, _ in self.links}))

    def at(self, key: Key) -> Connection | None:
        """The link to a lineage, or None."""
        connection = self.links.get(key)
        return None if connection is None else self.connections[connection]

    def epoch(self, key: Key) -> ViewId | None:
        """The epoch in which the relay of a lineage has linked; None when it has no link."""
        link = self.at(key)
        return None if link is None or link.session.peer is None else link.session.peer.epoch

    def acked_bytes(self, key: Key) -> int:
        """Bytes that a lineage has acknowledged on its present link; 0 without a link."""
        link = self.at(key)
        return 0 if link is None else link.session.acked_bytes

    def linked(self, site: str) -> bool:
        """True when the relay of some lineage of the site is linked."""
        return bool(self._linked(site))

    def _linked(self, site: str) -> list[ConnectionId]:
        return [connection for (linked, _), connection in self.links.items() if linked == site]

    # -- turns and time ------------------------------------------------------------------------------------------------

    def acknowledge(self, settled: Sequence[Admitted]) -> None:
        """Have the ACKs to each site tell what of it has become stable here; a view is acknowledged to its own lineage only."""
        for (site, lineage), connection in self.links.items() if settled else ():
            origins = {each.origin: each.n for each in settled if each.site == site and each.origin is not None}
            views = [each.view for each in settled if each.site == site and each.lineage == lineage]
            if origins or views:
                self.connections[connection].session.acknowledge(SiteVector(origins, views[-1] if views else None))
                self.touch(connection)

    def overdue(self, now: float) -> list[tuple[ConnectionId, Overdue]]:
        """The connections to close now, and why."""
        reasons = [(connection, link.session.overdue(now)) for connection, link in self.connections.items()]
        return [(connection, reason) for connection, reason in reasons if reason is not None]

    def fill(self, now: float) -> list[Send]:
        """What may be sent now on the connections touched since the last call, at most a chunk on each."""
        touched, self._touched = self._touched, {}
        effects: list[Send] = []
        for connection, link in self.connections.items():
            if connection not in touched:
                continue
            key = link.key()
            if key is not None:
                link.session.resync(self._admitted(key), now)
            data = link.session.next_chunk(now)
            if data:
                effects.append(Send(connection, data))
        return effects

    def deadline(self) -> float | None:
        """Time (s) at which `overdue` or `fill` must be called; None without connections."""
        return min([link.session.deadline() for link in self.connections.values()], default=None)
