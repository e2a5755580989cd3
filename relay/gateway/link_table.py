"""LinkTable: the connections of this site's relay, and which of them is the link to each lineage of another site.

Links are keyed by (site, lineage), since two parts of a split site may relay at the same time, each legitimately (R10). Who may
connect, and when a connection ends, is the gateway's business; a `LinkSession` does the talking on each connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relay.events import BridgeClose, BridgeConnected, BridgeSend
from relay.gateway.session import LinkConfig, LinkSession
from relay.gateway.watermarks import Admitted, Watermarks
from relay.gateway.wire import VERSION, Hello
from relay.replica.entries import SiteVector
from relay.replica.state import ReplicatedState
from sitestack.model.address import Physical
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Effect, Local, Up

#: On a route (`relay/gateway/routes.py`), whose connections have negative numbers: what may wait at the sites in between.
ROUTE_WINDOW_BYTES = 1024 * 1024

Key = tuple[str, ViewId]


@dataclass(slots=True)
class Connection:
    """One TCP connection and how it came about."""

    session: LinkSession
    #: The site and address that this side dialed; None when it accepted.
    dialed: tuple[str, Physical] | None
    #: The site that the peer has proven to be: by its certificate, or for a route as the site at the far end.
    certified: str | None

    def key(self) -> Key | None:
        """The link that this connection is, once accepted."""
        peer = self.session.peer
        return (peer.site, peer.lineage) if peer is not None and self.session.accepted else None


class LinkTable:
    """Who is connected. Bounds: the gateway's, and for each connection `LinkConfig`."""

    def __init__(self, local: Local, config: LinkConfig, state: ReplicatedState, watermarks: Watermarks) -> None:
        #: By their numbers, those that are no link yet included.
        self.connections: dict[int, Connection] = {}
        #: The number of the connection that is the link to each lineage.
        self.numbers: dict[Key, int] = {}
        self._local = local
        self._config = config
        self._state = state
        self._watermarks = watermarks
        self._made = 0

    # -- from HELLO to BYE ---------------------------------------------------------------------------------------------

    def greet(self, event: BridgeConnected, view: View, now: float) -> None:
        """A connection is ready: say HELLO at once."""
        self._made += 1
        local, config = self._local, self._config
        window = min(config.window_bytes, ROUTE_WINDOW_BYTES if event.connection < 0 else 1 << 62)
        frame_max = config.frame_bytes_max
        hello = Hello(VERSION, local.site, view.lineage, view.id, local.address, local.name, self._made, window, frame_max)
        session = LinkSession(hello, self._state, self._watermarks, config, now)
        self.connections[event.connection] = Connection(session, event.dialed, event.certified)

    def accept(self, number: int, key: Key) -> None:
        """This connection is the link to a lineage from now on."""
        self.numbers[key] = number
        self.connections[number].session.accept(self._state.admitted_vector(*key), self._watermarks.stable_vector(*key))

    def farewell(self, number: int, reason: str) -> list[Effect]:
        """Say BYE, if it can still be said, and close a connection."""
        farewell = self.connections[number].session.farewell(reason)
        effects: list[Effect] = [Up(BridgeSend(number, farewell))] if farewell else []
        return [*effects, Up(BridgeClose(number, reason))]

    def forget(self, number: int) -> tuple[Connection, Key | None]:
        """A connection has ended: with the lineage that has no link any more, if it was one."""
        gone = self.connections.pop(number)
        key = gone.key()
        if key is None or self.numbers.get(key) != number:
            return gone, None
        del self.numbers[key]
        return gone, key

    # -- who is linked -------------------------------------------------------------------------------------------------

    def sites(self) -> tuple[str, ...]:
        """The sites that are linked, in order of their names."""
        return tuple(sorted({site: None for site, _ in self.numbers}))

    def at(self, key: Key) -> Connection | None:
        """The link to a lineage."""
        number = self.numbers.get(key)
        return None if number is None else self.connections[number]

    def epoch(self, key: Key) -> ViewId | None:
        """In which epoch the relay of a lineage has linked; None when it has not."""
        link = self.at(key)
        return None if link is None or link.session.peer is None else link.session.peer.epoch

    def sessions(self, site: str) -> list[LinkSession]:
        """The links to a site, one for each part of it that relays."""
        return [self.connections[number].session for (linked, _), number in self.numbers.items() if linked == site]

    def session_to(self, site: str, parts: Sequence[ViewId]) -> LinkSession | None:
        """The link to the first of these parts of a site that has one, else any to the site."""
        for part in parts:
            link = self.at((site, part))
            if link is not None:
                return link.session
        return next(iter(self.sessions(site)), None)

    # -- turns and time ------------------------------------------------------------------------------------------------

    def acknowledge(self, settled: Sequence[Admitted]) -> None:
        """Say to each site what of it has become stable here; views to the part that they are of."""
        for (site, lineage), number in self.numbers.items() if settled else ():
            origins = {each.origin: each.n for each in settled if each.site == site and each.origin is not None}
            views = [each.view for each in settled if each.site == site and each.lineage == lineage]
            if origins or views:
                self.connections[number].session.acknowledge(SiteVector(origins, views[-1] if views else None))

    def overdue(self, now: float) -> list[tuple[int, str]]:
        """The connections that are to be closed by now, and why."""
        reasons = [(number, link.session.overdue(now)) for number, link in self.connections.items()]
        return [(number, reason) for number, reason in reasons if reason is not None]

    def fill(self, now: float) -> list[Effect]:
        """What may be sent, a chunk on each connection."""
        effects: list[Effect] = []
        for number, link in self.connections.items():
            key = link.key()
            if key is not None:
                link.session.resync(self._state.admitted_vector(*key), now)
            data = link.session.take(now)
            if data:
                effects.append(Up(BridgeSend(number, data)))
        return effects

    def deadline(self) -> float | None:
        """When `overdue` or `fill` wants to be called."""
        return min([link.session.deadline() for link in self.connections.values()], default=None)
