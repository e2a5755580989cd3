"""Routes: links between sites without a TCP connection, over links of other sites (REL-33, R12, F35).

C ------------ B ------------ A        at C: via A: B        at A: via C: B        at B: forward A,
C
Routed(A<-C, number, bytes) -> forwarded, unread -> the relay of A

`Peering` treats a route like any connection: `Routes` does the shell's part and reports the same
events (`RouteEvent`). A site between the ends keeps no piece, so a relay's death there costs only a
new route. The pieces are numbered, so the far end detects a loss and ends the route. A piece names
the sites that have forwarded it, at most `HOPS_MAX`; none forwards it twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from relay.gateway.config import LinkConfig, RoutesConfig
from relay.gateway.connections import RouteId, Via
from relay.gateway.link_table import LinkTable
from relay.gateway.wire import HOPS_MAX, ROUTED_OVERHEAD_BYTES, Routed
from sitestack.stack.layer import Dropped, Effect, Local

#: Bytes of pieces on a link above which routes that begin here wait.
ROOM_BYTES = 256 * 1024
#: Maximum number of route ends to one site at this relay. One is normal, two during a replacement,
#: more while the site is split.
ROUTES_PER_SITE_MAX = 8


@dataclass(frozen=True, slots=True)
class Opened:
    """The relay of a site has opened a route to this one."""

    route: RouteId
    site: str


@dataclass(frozen=True, slots=True)
class Came:
    route: RouteId
    data: bytes


@dataclass(frozen=True, slots=True)
class Written:
    """The last chunk of a route is queued: the next one may follow."""

    route: RouteId


@dataclass(frozen=True, slots=True)
class Ended:
    """The far end or the link below has ended a route."""

    route: RouteId


@dataclass(frozen=True, slots=True)
class Broken:
    """A route has lost a piece, so this end must end it."""

    route: RouteId
    reason: str


RouteEvent = Opened | Written | Ended | Broken | Dropped


@dataclass(slots=True)
class _Route:
    #: The TCP connection below the route.
    hop: int
    sent: int = 0
    received: int = 0
    #: Bytes that wait for room on that connection: at most a chunk, and a BYE.
    waiting: bytes = b""


class Routes:
    """The routes that end at this relay, and pieces of others to forward.

    Bounds: `ROUTES_PER_SITE_MAX` routes to a site; the queue of each link.
    """

    def __init__(self, local: Local, config: RoutesConfig, link: LinkConfig, table: LinkTable) -> None:
        self.queued_bytes_high = 0
        self._site = local.site
        self._me = local.address
        self._config = config
        self._table = table
        self._routes: dict[RouteId, _Route] = {}
        self._opened = 0
        #: Neighbours that were linked at the last call of `reachable_again`.
        self._hops: list[str] = []
        #: Bytes on a link above which routes wait.
        self._room = max(1, min(ROOM_BYTES, link.routed_bytes_max - link.chunk_bytes - ROUTED_OVERHEAD_BYTES))

    def __len__(self) -> int:
        return len(self._routes)

    @property
    def are_used(self) -> bool:
        """Whether there are routes, or sites that are reached over one."""
        return bool(self._routes or self._config.via)

    @property
    def routes_max(self) -> int:
        return ROUTES_PER_SITE_MAX * len(self._config.via)

    @property
    def queued_bytes(self) -> int:
        return max([each.session.routed_bytes for each in self._table.connections.values()], default=0)

    def open(self, site: str, via: Via) -> RouteId | None:
        """Open a route to a site; return None without a link to the neighbour, or at the bound."""
        hop = self._link(via.neighbour)
        if hop is None or self._is_full(site):
            return None
        self._opened += 1
        route = RouteId(self._me, self._opened, site)
        self._routes[route] = _Route(hop)
        return route

    def write(self, route: RouteId, data: bytes) -> Written | Broken | None:
        """Send a chunk. Return None while it waits for room; then only a BYE may follow.

        A chunk that the link refuses despite room breaks the route.
        """
        found = self._routes.get(route)
        if found is None or found.hop not in self._table.connections:
            return None
        if found.waiting or self._table.connections[found.hop].session.routed_bytes >= self._room:
            found.waiting += data
            return None
        return Written(route) if self._send(route, found, data, ended=False) else Broken(route, "route_full")

    def end(self, route: RouteId) -> list[Effect]:
        """End a route at this end: notify the far end, with any bytes that wait for room."""
        found = self._routes.pop(route, None)
        if found is None or found.hop not in self._table.connections:
            return []
        return [] if self._send(route, found, found.waiting, ended=True) else [Dropped("route_full")]

    def forget(self, route: RouteId) -> bool:
        return self._routes.pop(route, None) is not None

    def _send(self, route: RouteId, found: _Route, data: bytes, ended: bool) -> bool:
        """Queue the next piece; return False if it is lost.

        Its number is used up, so the far end sees a hole.
        """
        piece = Routed(self._site, route.site, route.opener, route.number, found.sent, (), ended, data)
        found.sent += 1
        return self._queue(found.hop, piece)

    def _queue(self, hop: int, piece: Routed) -> bool:
        """Queue a piece on a link; return False if its data is lost. A route's end is queued even then."""
        whole = self._table.send_routed(hop, piece)
        if not whole and piece.ended and piece.data:
            self._table.send_routed(hop, replace(piece, data=b""))
        self.queued_bytes_high = max(self.queued_bytes_high, self._table.connections[hop].session.routed_bytes)
        return whole

    def orphans(self) -> list[Ended]:
        return [Ended(route) for route, each in self._routes.items() if each.hop not in self._table.connections]

    def reachable_again(self) -> list[str]:
        """Return the sites whose neighbour is linked, and was not at the last call."""
        if not self._config.via:
            return []
        before, hops = self._hops, dict.fromkeys(self._config.via.values())
        self._hops = [hop for hop in hops if self._link(hop) is not None]
        return [site for site, hop in self._config.via.items() if hop in self._hops and hop not in before]

    def retry(self) -> list[RouteEvent]:
        """Send waiting bytes for which there is room."""
        events: list[RouteEvent] = []
        for route, each in self._routes.items():
            if each.waiting:
                data, each.waiting = each.waiting, b""
                event = self.write(route, data)
                events += [] if event is None else [event]
        return events

    def arrived(self, site: str, piece: Routed) -> list[RouteEvent | Came]:
        """Accept or forward a piece from the link to a neighbour."""
        if self._next(piece.source) != site or (piece.source == self._site):
            return [Dropped("route_foreign")]
        if piece.target != self._site:
            return [*self._hand_on(site, piece)]
        route = RouteId(piece.opener, piece.number, piece.source)
        events: list[RouteEvent | Came] = []
        if route not in self._routes:
            hop = self._link(site)
            wanted = piece.source in self._config.via and piece.at == 0 and not piece.ended and piece.opener != self._me
            if not wanted or hop is None or self._is_full(piece.source):
                return [*self._refuse(site, piece, "route_unknown")]
            self._routes[route] = _Route(hop)
            events.append(Opened(route, piece.source))
        found = self._routes[route]
        if piece.at == found.received:
            found.received += 1
            events += [Came(route, piece.data)] if piece.data else []
        elif not piece.ended:
            return [*events, Broken(route, "route_hole")]
        return [*events, Ended(route)] if piece.ended else events

    def _hand_on(self, site: str, piece: Routed) -> list[Dropped]:
        if piece.source not in self._config.forward or piece.target not in self._config.forward:
            return self._refuse(site, piece, "route_refused")
        if self._site in piece.visited or len(piece.visited) >= HOPS_MAX or self._next(piece.target) == site:
            return [Dropped("route_loop")]
        hop = self._link(self._next(piece.target))
        if hop is None:
            return self._refuse(site, piece, "route_no_link")
        if not self._queue(hop, replace(piece, visited=(*piece.visited, self._site))):
            return self._refuse(site, piece, "route_full")
        return []

    def _refuse(self, site: str, piece: Routed, reason: str) -> list[Dropped]:
        """Report the route's end to the sender of a refused piece. Ends are never refused, so this cannot loop."""
        hop = self._link(site)
        handed_on_by = () if piece.target == self._site else (self._site,)
        answer = Routed(piece.target, piece.source, piece.opener, piece.number, 0, handed_on_by, True, b"")
        unheard = hop is not None and not piece.ended and not self._queue(hop, answer)
        return [Dropped(reason), *([Dropped("route_full")] if unheard else [])]

    def _is_full(self, site: str) -> bool:
        return sum(route.site == site for route in self._routes) >= ROUTES_PER_SITE_MAX

    def _next(self, site: str) -> str:
        return self._config.via.get(site, site)

    def _link(self, neighbour: str) -> int | None:
        """Return the TCP connection to a neighbour; of several linked parts, that of the newest lineage."""
        links = self._table.links.items()
        found = [(key[1], each) for key, each in links if key[0] == neighbour and isinstance(each, int)]
        return max(found)[1] if found else None
