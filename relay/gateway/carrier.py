"""Carrier: the TCP connections and routes of a gateway, which `Peering` cannot tell apart. It turns
effects on TCP connections into effects for the shell, and carries out those on routes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from relay.events import BridgeClose, BridgeClosed, BridgeConnected, BridgeReceived, BridgeSend, Dial, DialFailed
from relay.gateway.config import LinkConfig, RoutesConfig
from relay.gateway.connections import Call, Close, ConnectionId, LinkEffect, RouteId, Send, Via
from relay.gateway.peering import Arrived, Peering, Piece
from relay.gateway.routes import Broken, Came, Ended, Opened, RouteEvent, Routes, Written
from sitestack.stack.layer import Dropped, Effect, Local, Up


class Carrier:
    """Bounds: those of `Routes`."""

    def __init__(self, local: Local, routes: RoutesConfig, link: LinkConfig, peering: Peering) -> None:
        self.routes = Routes(local, routes, link, peering.table)
        self._peering = peering

    def connected(self, event: BridgeConnected, now: float) -> list[Effect]:
        return self.carry_out(self._peering.connected(event.connection, event.dialed, event.certified, now), now)

    def closed(self, event: BridgeClosed, now: float) -> list[Effect]:
        return self.carry_out(self._peering.closed(event.connection, now), now)

    def dial_failed(self, event: DialFailed, now: float) -> list[Effect]:
        self._peering.call_failed(event.site, event.address, now)
        return []

    def received(self, event: BridgeReceived, now: float) -> list[Effect | Arrived]:
        """Process bytes. Return the unicasts and answers among them, in order."""
        arrived: deque[Arrived | Piece] = deque()
        effects: list[Effect | Arrived] = [*self._receive(event.connection, event.data, arrived, now)]
        while arrived:
            each = arrived.popleft()
            effects += self._accept_piece(each, arrived, now) if isinstance(each, Piece) else [each]
        return effects

    def _receive(self, connection: ConnectionId, data: bytes, arrived: deque[Arrived | Piece], now: float) -> list[Effect]:
        effects, news = self._peering.received(connection, data, now)
        arrived += news
        return self.carry_out(effects, now)

    def carry_out(self, effects: Iterable[LinkEffect], now: float) -> list[Effect]:
        """Carry out effects on routes; return those on TCP connections as effects for the shell."""
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Call(site, place):
                    rest += self._open_route(site, place, now) if isinstance(place, Via) else [Up(Dial(site, place))]
                case Send(to, data):
                    rest += self._write(to, data, now) if isinstance(to, RouteId) else [Up(BridgeSend(to, data))]
                case Close(to, reason):
                    rest += self.routes.end(to) if isinstance(to, RouteId) else [Up(BridgeClose(to, reason))]
                case _:
                    rest.append(effect)
        return rest

    def fill(self, effects: list[LinkEffect], now: float) -> list[Effect]:
        """Carry out these effects and fill the links until no route queues another piece."""
        carried = self.carry_out([*effects, *self._peering.table.fill(now)], now)
        while self.routes.are_used and (more := self._peering.table.fill(now)):
            carried += self.carry_out(more, now)
        return carried

    def follow_routes(self, now: float) -> list[Effect]:
        """End routes of closed links, call sites whose neighbour is linked again, send waiting pieces."""
        if not self.routes.are_used:
            return []
        effects: list[Effect] = []
        for orphan in self.routes.orphans():
            effects += self._on_route(orphan, now)
        for site in self.routes.reachable_again():
            self._peering.expect(site, now)
        for event in self.routes.retry():
            effects += self._on_route(event, now)
        return effects

    def _open_route(self, site: str, via: Via, now: float) -> list[Effect]:
        route = self.routes.open(site, via)
        if route is None:
            self._peering.call_failed(site, via, now)
            return []
        return self.carry_out(self._peering.connected(route, (site, via), None, now), now)

    def _write(self, route: RouteId, data: bytes, now: float) -> list[Effect]:
        event = self.routes.write(route, data)
        return [] if event is None else self._on_route(event, now)

    def _on_route(self, event: RouteEvent, now: float) -> list[Effect]:
        match event:
            case Opened(route, site):
                # `Routes` accepts a route only over the link to its source.
                return self.carry_out(self._peering.connected(route, None, site, now), now)
            case Written(route):
                self._peering.table.written(route)
                return []
            case Ended(route):
                return self.carry_out(self._peering.closed(route, now), now) if self.routes.forget(route) else []
            case Broken(route, reason):
                lost = [Dropped(reason), *self.routes.end(route)]
                return [*lost, *self.carry_out(self._peering.closed(route, now), now)]
            case Dropped():
                return [event]

    def _accept_piece(self, piece: Piece, arrived: deque[Arrived | Piece], now: float) -> list[Effect]:
        effects: list[Effect] = []
        for event in self.routes.arrived(*piece):
            if isinstance(event, Came):
                effects += self._receive(event.route, event.data, arrived, now)
            else:
                effects += self._on_route(event, now)
        return effects
