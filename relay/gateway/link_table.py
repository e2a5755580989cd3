"""LinkTable: the connections of this site's relay, and which of them is the link to each lineage of another site.

Links are keyed by (site, lineage), since two parts of a split site may relay at the same time, each legitimately (R10). Who may
connect, and when a connection ends, is the gateway's business; a `LinkSession` does the talking on each connection.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from relay.gateway.connections import Close, ConnectionId, LinkEffect, Place, RouteId, Send
from relay.gateway.session import LinkConfig, LinkSession, Overdue
from relay.gateway.watermarks import Admitted, Watermarks
from relay.gateway.wire import VERSION, Hello, RemoteUnicast, Routed
from relay.replica.entries import SiteVector, UnicastRefusal, UnicastReply
from relay.replica.state import ReplicatedState
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: On a route (`relay/gateway/routes.py`): what may wait at the sites in between.
ROUTE_WINDOW_BYTES = 1024 * 1024

Key = tuple[str, ViewId]


@dataclass(slots=True)
class Connection:
    """One connection and how it came about."""

    session: LinkSession
    #: The site and place that this side called; None when it accepted.
    dialed: tuple[str, Place] | None
    #: The site that the peer has proven to be: by its certificate, or for a route as the site at the far end.
    certified: str | None

    def key(self) -> Key | None:
        """The link that this connection is, once accepted."""
        peer = self.session.peer
        return (peer.site, peer.lineage) if peer is not None and self.session.accepted else None


class LinkTable:
    """Who is connected. Bounds: the gateway's, and for each connection `LinkConfig`."""

    def __init__(
        self,
        local: Local,
        config: LinkConfig,
        state: ReplicatedState,
        watermarks: Watermarks,
        going_down: Container[Key],
    ) -> None:
        """`going_down`: lineages that an entry on its way takes out of the global view (`Grace`)."""
        #: All of them, those that are no link yet included.
        self.connections: dict[ConnectionId, Connection] = {}
        #: The connection that is the link to each lineage.
        self.links: dict[Key, ConnectionId] = {}
        self._local = local
        self._config = config
        self._state = state
        self._watermarks = watermarks
        self._going_down = going_down
        self._made = 0
        #: Who may have something to send, or asks for another deadline: looked at when the table is filled next.
        self._touched: dict[ConnectionId, None] = {}

    # -- from HELLO to BYE ---------------------------------------------------------------------------------------------

    def greet(
        self, connection: ConnectionId, dialed: tuple[str, Place] | None, certified: str | None, view: View, now: float
    ) -> None:
        """A connection is ready: say HELLO at once."""
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
        """Say BYE, if it can still be said, and close a connection."""
        farewell = self.connections[connection].session.farewell(reason)
        return [*([Send(connection, farewell)] if farewell else []), Close(connection, reason)]

    def forget(self, connection: ConnectionId) -> tuple[Connection, Key | None]:
        """A connection has ended: with the lineage that has no link any more, if it was one."""
        gone = self.connections.pop(connection)
        self._touched.pop(connection, None)
        key = gone.key()
        if key is None or self.links.get(key) != connection:
            return gone, None
        del self.links[key]
        return gone, key

    # -- what a connection is told ------------------------------------------------------------------------------------

    def touch(self, connection: ConnectionId) -> None:
        """Something about this connection has changed."""
        self._touched[connection] = None

    def touch_all(self) -> None:
        """Something has changed about what may be sent on any of them."""
        self._touched = dict.fromkeys(self.connections)

    def written(self, connection: ConnectionId) -> None:
        """Its last chunk is on its way."""
        if connection in self.connections:
            self.connections[connection].session.written()
            self.touch(connection)

    def resync(self, site: str) -> None:
        """What a site has sent has a hole here: ask each link to it for what is missing."""
        for connection in self._linked(site):
            self.connections[connection].session.report_hole()
            self.touch(connection)

    def send_unicast(self, site: str, parts: Sequence[ViewId], frame: RemoteUnicast | UnicastReply) -> UnicastRefusal | None:
        """Queue it on the link to the first of these parts of a site, else on any to the site; why not, or None."""
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
        """The sites that are linked, in order of their names."""
        return tuple(sorted({site: None for site, _ in self.links}))

    def at(self, key: Key) -> Connection | None:
        """The link to a lineage."""
        connection = self.links.get(key)
        return None if connection is None else self.connections[connection]

    def epoch(self, key: Key) -> ViewId | None:
        """In which epoch the relay of a lineage has linked; None when it has not."""
        link = self.at(key)
        return None if link is None or link.session.peer is None else link.session.peer.epoch

    def acked_bytes(self, key: Key) -> int:
        """What a lineage has acknowledged on its link of now; 0 without one."""
        link = self.at(key)
        return 0 if link is None else link.session.acked_bytes

    def linked(self, site: str) -> bool:
        """True when the relay of some lineage of the site is linked."""
        return bool(self._linked(site))

    def _linked(self, site: str) -> list[ConnectionId]:
        return [connection for (linked, _), connection in self.links.items() if linked == site]

    # -- turns and time ------------------------------------------------------------------------------------------------

    def acknowledge(self, settled: Sequence[Admitted]) -> None:
        """Say to each site what of it has become stable here; views to the part that they are of."""
        for (site, lineage), connection in self.links.items() if settled else ():
            origins = {each.origin: each.n for each in settled if each.site == site and each.origin is not None}
            views = [each.view for each in settled if each.site == site and each.lineage == lineage]
            if origins or views:
                self.connections[connection].session.acknowledge(SiteVector(origins, views[-1] if views else None))
                self.touch(connection)

    def overdue(self, now: float) -> list[tuple[ConnectionId, Overdue]]:
        """The connections that are to be closed by now, and why."""
        reasons = [(connection, link.session.overdue(now)) for connection, link in self.connections.items()]
        return [(connection, reason) for connection, reason in reasons if reason is not None]

    def fill(self, now: float) -> list[Send]:
        """What may be sent on the connections that were touched since they were asked last, a chunk on each."""
        touched, self._touched = self._touched, {}
        effects: list[Send] = []
        for connection, link in self.connections.items():
            if connection not in touched:
                continue
            key = link.key()
            if key is not None:
                link.session.resync(self._admitted(key), now)
            data = link.session.take(now)
            if data:
                effects.append(Send(connection, data))
        return effects

    def deadline(self) -> float | None:
        """When `overdue` or `fill` wants to be called."""
        return min([link.session.deadline() for link in self.connections.values()], default=None)
