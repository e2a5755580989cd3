"""LinkTable: the connections of this site's relay, and the link to each lineage of another site.

Links are keyed by (site, lineage), since two parts of a split site may both relay legitimately
(R10).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from relay.gateway.config import LinkConfig
from relay.gateway.connections import Close, ConnectionId, LinkEffect, Place, RouteId, Send
from relay.gateway.session import LinkSession, Overdue
from relay.gateway.watermarks import Admitted, Watermarks
from relay.gateway.wire import VERSION, ForOne, Hello, Routed, number_link
from relay.replica.entries import SiteVector, UnicastRefusal
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Local

#: Window (bytes) of a link over a route; they may queue at sites between.
ROUTE_WINDOW_BYTES = 1024 * 1024

Key = tuple[str, ViewId]


@dataclass(slots=True)
class Connection:
    session: LinkSession
    #: The called site and place; None if this side accepted.
    dialed: tuple[str, Place] | None
    #: The site of the peer's TLS certificate, or the far end of a route; None without a proof.
    certified: str | None

    def key(self) -> Key | None:
        """Return the (site, lineage) that this connection links; None before it is accepted."""
        peer = self.session.peer
        return (peer.site, peer.lineage) if peer is not None and self.session.accepted else None

    @property
    def site(self) -> str:
        """The site at the other end, or the called one before HELLO; empty while unknown."""
        peer = self.session.peer
        return peer.site if peer is not None else self.dialed[0] if self.dialed is not None else ""


class LinkTable:
    """Table of the connections. Bounds: `Peering` limits their number, `LinkConfig` the size of each."""

    def __init__(
        self,
        local: Local,
        config: LinkConfig,
        window_bytes_max: int,
        state: ReplicatedState,
        watermarks: Watermarks,
        going_down: Container[Key],
    ) -> None:
        """`window_bytes_max`: of one link, in either direction.

        `going_down`: lineages about to be hidden by an entry on its way (`Grace`).
        """
        self.connections: dict[ConnectionId, Connection] = {}
        self.links: dict[Key, ConnectionId] = {}
        self._local = local
        self._config = config
        self._window_bytes_max = window_bytes_max
        self._state = state
        self._watermarks = watermarks
        self._going_down = going_down
        self._made = 0

    def greet(
        self, connection: ConnectionId, dialed: tuple[str, Place] | None, certified: str | None, view: View, now: float
    ) -> None:
        self._made += 1
        local, config = self._local, self._config
        is_route = isinstance(connection, RouteId)
        most = min(config.window_bytes, ROUTE_WINDOW_BYTES) if is_route else self._window_bytes_max
        frame_max, link = config.frame_bytes_max, number_link(self._made, config.decompressed_bytes_max)
        hello = Hello(VERSION, local.site, view.lineage, view.id, local.address, local.name, link, most, frame_max)
        session = LinkSession(hello, self._state, self._watermarks, config, now)
        self.connections[connection] = Connection(session, dialed, certified)

    def accept(self, connection: ConnectionId, key: Key) -> None:
        self.links[key] = connection
        self.connections[connection].session.accept(self._admitted(key), self._watermarks.stable_vector(*key))

    def _admitted(self, key: Key) -> SiteVector | None:
        """Return the vector for STATE.

        It asks again for a view about to be hidden, so that it precedes later messages (G5).
        """
        vector = self._state.admitted_vector(*key)
        return vector if vector is None or key not in self._going_down else SiteVector(vector.origins)

    def farewell(self, connection: ConnectionId, reason: str) -> list[LinkEffect]:
        """Send BYE, unless the connection ends inside a frame, and close the connection."""
        farewell = self.connections[connection].session.farewell(reason)
        return [*([Send(connection, farewell)] if farewell else []), Close(connection, reason)]

    def forget(self, connection: ConnectionId) -> tuple[Connection, Key | None]:
        """Remove a closed connection. Return it, and the (site, lineage) that now has no link, or None."""
        gone = self.connections.pop(connection)
        key = gone.key()
        if key is None or self.links.get(key) != connection:
            return gone, None
        del self.links[key]
        return gone, key

    def written(self, connection: ConnectionId) -> bool:
        return connection in self.connections and self.connections[connection].session.written()

    def resync(self, site: str) -> None:
        """Send STATE on each link to a site after a hole, so that it replays from there."""
        for connection in self._linked(site):
            self.connections[connection].session.has_hole = True

    def send_unicast(self, site: str, member: Address, frame: ForOne) -> UnicastRefusal | None:
        """Queue a frame on the link to the member's part of `site`, else on any link to it.

        Return the reason for a refusal, or None.
        """
        remote = self._state.remotes.get(site)
        parts = [] if remote is None else remote.lineages_of(member)
        links = [self.links[site, part] for part in parts if (site, part) in self.links]
        connection = next(iter(links or self._linked(site)), None)
        if connection is None:
            return UnicastRefusal.NO_LINK
        return self.connections[connection].session.send_unicast(frame)

    def send_routed(self, connection: ConnectionId, piece: Routed) -> bool:
        """Queue a piece of a route; return False without room."""
        return self.connections[connection].session.send_routed(piece)

    def sites(self) -> tuple[str, ...]:
        return tuple(sorted({site: None for site, _ in self.links}))

    def at(self, key: Key) -> Connection | None:
        connection = self.links.get(key)
        return None if connection is None else self.connections[connection]

    def epoch(self, key: Key) -> ViewId | None:
        """Return the epoch in which the relay of a lineage has linked; None without a link."""
        link = self.at(key)
        return None if link is None or link.session.peer is None else link.session.peer.epoch

    def acked_bytes(self, key: Key) -> int:
        """Return the bytes that a lineage has acknowledged on its present link; 0 without a link."""
        link = self.at(key)
        return 0 if link is None else link.session.acked_bytes

    def relay_of(self, site: str) -> Address:
        """Return the relay of a site that is linked."""
        peer = self.connections[self._linked(site)[0]].session.peer
        assert peer is not None, "a link has a HELLO"
        return peer.relay

    def linked(self, site: str) -> bool:
        return bool(self._linked(site))

    def _linked(self, site: str) -> list[ConnectionId]:
        return [connection for (linked, _), connection in self.links.items() if linked == site]

    def acknowledge(self, settled: Sequence[Admitted]) -> None:
        """Queue newly stable numbers for the ACKs to each site; a view goes to its own lineage only."""
        for (site, lineage), connection in self.links.items() if settled else ():
            origins = {each.origin: each.n for each in settled if each.site == site and each.origin is not None}
            views = [each.view for each in settled if each.site == site and each.lineage == lineage]
            if origins or views:
                self.connections[connection].session.acknowledge(SiteVector(origins, views[-1] if views else None))

    def overdue(self, now: float) -> list[tuple[ConnectionId, Overdue]]:
        links = self.connections.items()
        return [(connection, late) for connection, link in links if (late := link.session.overdue(now)) is not None]

    def fill(self, now: float) -> list[Send]:
        """Return the data to send, at most a chunk on each connection."""
        effects: list[Send] = []
        for connection, link in self.connections.items():
            key = link.key() if link.session.has_hole else None
            if key is not None:
                link.session.resync(self._admitted(key), now)
            data = link.session.next_chunk(now)
            if data:
                effects.append(Send(connection, data))
        return effects

    def deadline(self) -> float | None:
        """Time (s) at which `overdue` or `fill` must be called; None without connections."""
        return min([link.session.deadline() for link in self.connections.values()], default=None)
