"""Routes: links to sites that this one has no connection with, by way of one that has (REL-33, R12, F35).

    C ------------ B ------------ A        at C: via A: B        at A: via C: B        at B: forward A, C
      Routed(A<-C, number, bytes) -> handed on, unread -> the relay of A

To the gateway a route is a connection like any other: it dials it, and HELLO, STATE, replay, entries and acknowledgements go
from end to end over it. The site in between only hands on pieces of it, from link to link, and keeps nothing. So whatever dies
there costs a new route and nothing else: what was on its way is replayed by its own site, as after any broken connection.
A piece that is lost is noticed by the numbers of the pieces, and ends the route.

Loops: a piece carries the sites that have handed it on; none does so twice, and there are at most `HOPS_MAX`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from relay.events import BridgeClose, BridgeSend, Dial
from relay.gateway.connections import Call, Close, LinkEffect, RouteId, Send, Via
from relay.gateway.gateway import Gateway
from relay.gateway.receiver import HOPS_MAX
from relay.gateway.session import LinkSession
from relay.gateway.wire import ROUTED_OVERHEAD_BYTES, Routed
from sitestack.stack.layer import Dropped, Effect, Local, Up

#: While more than this waits on the link that a route goes over, the route waits too; sooner when the link's bound is near.
ROOM_BYTES = 256 * 1024
#: Routes that this relay opens and ends, at most: one a site is normal, two while one replaces another.
ROUTES_MAX = 64


@dataclass(frozen=True, slots=True)
class RoutesConfig:
    """Who has no connection with whom. Every site on a way must be told: its ends by `via`, those in between by `forward`."""

    #: Sites without a connection to this one, and the peer that is the next on the way to each.
    via: dict[str, str] = field(default_factory=dict)
    #: Sites between which this one hands on what is not for it.
    forward: tuple[str, ...] = ()


@dataclass(slots=True)
class _Route:
    """One end of a route."""

    site: str
    #: The connection that it goes over. When that ends, so does the route.
    hop: int
    sent: int = 0
    received: int = 0
    #: What waits for room on that connection: a chunk at most, since the gateway gives no other before it, and a farewell.
    waiting: bytes = b""


class Routes:
    """The ends of routes at this relay, and what it hands on. Bounds: `ROUTES_MAX`, and the queue of each link for pieces.

    The gateway's effects pass through `carry`, which does for routes what the shell does for TCP connections.
    """

    def __init__(self, local: Local, config: RoutesConfig, gateway: Gateway) -> None:
        self.handed_on = 0
        #: Of one link.
        self.queued_bytes_high = 0
        self._site = local.site
        self._me = local.address
        self._config = config
        self._gateway = gateway
        self._routes: dict[RouteId, _Route] = {}
        self._opened = 0
        #: The hops that had a link when it was looked last.
        self._hops: list[str] = []
        link = gateway.config.link
        #: So that the ends here alone never bring a link more than it takes.
        self._room = max(1, min(ROOM_BYTES, link.routed_bytes_max - link.chunk_bytes - ROUTED_OVERHEAD_BYTES))
        #: Pieces were queued on links that may have been asked already in this turn.
        self._moved = False

    def __len__(self) -> int:
        return len(self._routes)

    @property
    def queued_bytes(self) -> int:
        """Pieces that wait, on the link where most do."""
        return max([each.session.routed_bytes for each in self._gateway.connections.values()], default=0)

    # -- the gateway's shell -------------------------------------------------------------------------------------------

    def carry(self, effects: Sequence[LinkEffect], now: float) -> list[Effect]:
        """Carry out what is about routes; the rest is the shell's."""
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Call(site, place):
                    rest += self._dial(site, place, now) if isinstance(place, Via) else [Up(Dial(site, place))]
                case Send(to, data):
                    rest += self._write(to, data, now) if isinstance(to, RouteId) else [Up(BridgeSend(to, data))]
                case Close(to, reason):
                    rest += self._end(to) if isinstance(to, RouteId) else [Up(BridgeClose(to, reason))]
                case _:
                    rest.append(effect)
        return rest

    def pump(self, now: float) -> list[Effect]:
        """The gateway's turn, and again as long as routes bring something new for its links."""
        effects = self._follow_links(now)
        for connection, route in list(self._routes.items()):
            if route.waiting and connection in self._routes:
                data, route.waiting = route.waiting, b""
                effects += self._write(connection, data, now)
        self._moved = True
        while self._moved:
            self._moved = False
            effects += self.carry(self._gateway.pump(now), now)
        return effects

    def _follow_links(self, now: float) -> list[Effect]:
        """End what went over a link that has ended; call again, soon, where there is a link again."""
        effects: list[Effect] = []
        for connection, route in list(self._routes.items()):
            if route.hop not in self._gateway.connections:
                del self._routes[connection]
                effects += self.carry(self._gateway.closed(connection, now), now)
        hops = [hop for hop in dict.fromkeys(self._config.via.values()) if self._link(hop) is not None]
        for site, hop in self._config.via.items():
            if hop in hops and hop not in self._hops:
                self._gateway.expect(site, now)
        self._hops = hops
        return effects

    def _dial(self, site: str, place: Via, now: float) -> list[Effect]:
        hop = self._link(place.neighbour)
        if hop is None or len(self._routes) >= ROUTES_MAX:
            return self.carry(self._gateway.dial_failed(site, place, now), now)
        self._opened += 1
        connection = RouteId(self._me, self._opened)
        self._routes[connection] = _Route(site, hop)
        self._moved = True
        return self.carry(self._gateway.connected(connection, (site, place), None, now), now)

    def _write(self, connection: RouteId, data: bytes, now: float) -> list[Effect]:
        """Send a chunk, or let it wait for room: then the gateway gives no other, and a farewell goes behind it.

        A chunk that the link does not take although there is room ends the route: without it the rest is worth nothing.
        """
        route = self._routes.get(connection)
        session = None if route is None else self._session(route.hop)
        if route is None or session is None:
            return []
        if route.waiting or session.routed_bytes >= self._room:
            route.waiting += data
            return []
        if not self._send(connection, route, session, data, ended=False):
            lost = [Dropped("route_full"), *self._end(connection)]
            return [*lost, *self.carry(self._gateway.closed(connection, now), now)]
        self._gateway.written(connection)
        return []

    def _send(self, connection: RouteId, route: _Route, session: LinkSession, data: bytes, ended: bool) -> bool:
        """False when the data is lost. A lost piece uses up its number too, so that the far end sees the hole."""
        piece = Routed(self._site, route.site, connection.opener, connection.number, route.sent, (), ended, data)
        route.sent += 1
        self._moved = True
        return self._queue(session, piece)

    def _queue(self, session: LinkSession, piece: Routed) -> bool:
        """Put a piece on a link, of the last one of a route at least that it has ended; False when something is lost."""
        whole = session.send_routed(piece)
        if not whole and piece.ended and piece.data:
            session.send_routed(replace(piece, data=b""))
        self.queued_bytes_high = max(self.queued_bytes_high, session.routed_bytes)
        return whole

    def _end(self, connection: RouteId) -> list[Effect]:
        route = self._routes.pop(connection, None)
        session = None if route is None else self._session(route.hop)
        if route is None or session is None or self._send(connection, route, session, route.waiting, ended=True):
            return []
        return [Dropped("route_full")]

    # -- what arrives --------------------------------------------------------------------------------------------------

    def arrived(self, site: str, piece: Routed, now: float) -> list[Effect]:
        """From the link to a site: of a route that ends here, or to be handed on."""
        if self._next(piece.source) != site or (piece.source == self._site):
            return [Dropped("route_foreign")]
        if piece.target != self._site:
            return self._hand_on(site, piece)
        connection = RouteId(piece.opener, piece.number)
        effects: list[Effect] = []
        if connection not in self._routes:
            hop = self._link(site)
            wanted = piece.source in self._config.via and piece.at == 0 and not piece.ended and piece.opener != self._me
            if not wanted or hop is None or len(self._routes) >= ROUTES_MAX:
                return self._refuse(site, piece, "route_unknown")
            self._routes[connection] = _Route(piece.source, hop)
            # It comes by the way to its source, and may speak for no other site.
            effects = self.carry(self._gateway.connected(connection, None, piece.source, now), now)
        route = self._routes.get(connection)
        if route is None:
            return effects
        if piece.at == route.received:
            route.received += 1
            effects += self.carry(self._gateway.received(connection, piece.data, now), now) if piece.data else []
        elif not piece.ended:
            effects += [Dropped("route_hole"), *self._end(connection)]
            return [*effects, *self.carry(self._gateway.closed(connection, now), now)]
        if piece.ended and self._routes.pop(connection, None) is not None:
            effects += self.carry(self._gateway.closed(connection, now), now)
        return effects

    def _hand_on(self, site: str, piece: Routed) -> list[Effect]:
        if piece.source not in self._config.forward or piece.target not in self._config.forward:
            return self._refuse(site, piece, "route_refused")
        if self._site in piece.visited or len(piece.visited) >= HOPS_MAX or self._next(piece.target) == site:
            return [Dropped("route_loop")]
        hop = self._link(self._next(piece.target))
        session = None if hop is None else self._session(hop)
        if session is None:
            return self._refuse(site, piece, "route_no_link")
        if not self._queue(session, replace(piece, visited=(*piece.visited, self._site))):
            return self._refuse(site, piece, "route_full")
        self.handed_on += 1
        return []

    def _refuse(self, site: str, piece: Routed, reason: str) -> list[Effect]:
        """Tell the end that sent it that the route has ended. Nobody answers that."""
        hop = self._link(site)
        session = None if hop is None else self._session(hop)
        answer = Routed(piece.target, piece.source, piece.opener, piece.number, 0, (), True, b"")
        unheard = session is not None and not piece.ended and not self._queue(session, answer)
        return [Dropped(reason), *([Dropped("route_full")] if unheard else [])]

    # -- ways ----------------------------------------------------------------------------------------------------------

    def _next(self, site: str) -> str:
        """The neighbour on the way to a site: itself, if it is one."""
        return self._config.via.get(site, site)

    def _link(self, neighbour: str) -> int | None:
        """The connection to a neighbour; when both parts of it are linked, to the one with the newer lineage."""
        links = self._gateway.links.items()
        found = [(key[1], each) for key, each in links if key[0] == neighbour and isinstance(each, int)]
        return max(found)[1] if found else None

    def _session(self, connection: int) -> LinkSession | None:
        found = self._gateway.connections.get(connection)
        return None if found is None else found.session
