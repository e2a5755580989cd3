"""Gateway: what a relay of a site does towards other sites. Every member has one, active at the coordinator.

The layer hands in what happens: views, entries of the stream, how far the stream is held and stable, and the shell's reports on
its TCP connections. The gateway returns effects for the shell and for the layers below, most of them once a turn. It only reads
the replicated state; to change it, the gateway puts an entry into the stream, so that all members apply the same change.

    Peering          connections, from HELLO to BYE: which to make, which to believe, what becomes of a frame
    Routes           connections over the links of other sites; `Peering` cannot tell them from TCP
    Watermarks       what may be sent, and what may be acknowledged
    Coordination     what only the coordinator says in the stream: for whom it is held, who is slow, what is trimmed
    Injector         queue of entries on their way into the stream
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from relay.events import BridgeClose, BridgeClosed, BridgeConnected, BridgeReceived, BridgeSend, BridgeWritten, Dial, DialFailed
from relay.gateway.connections import Call, Close, ConnectionId, Ending, LinkEffect, RouteId, Send, Via
from relay.gateway.coordination import Coordination
from relay.gateway.injector import Injector
from relay.gateway.levels import gateway_levels
from relay.gateway.link_table import Connection, Key
from relay.gateway.peering import Arrived, GatewayConfig, Peering, Piece
from relay.gateway.places import Places
from relay.gateway.routes import Broken, Came, Ended, Opened, RouteEvent, Routes, RoutesConfig, Written
from relay.gateway.watermarks import Watermarks, admitted_by
from relay.gateway.wire import ForOne
from relay.replica.entries import Configured, HeldFor, Relayed, RemoteView, SiteDown, SiteSwitch, UnicastRefusal
from relay.replica.outcome import Outcome
from relay.replica.pace import Pace
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address, Physical
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View
from sitestack.stack.layer import Dropped, Effect, Local, Up

__all__ = ["Gateway", "GatewayConfig"]


class Gateway:
    """Bounds: those of its parts. Collected acknowledgements are cast, and so empty again, at the end of each turn."""

    def __init__(self, local: Local, config: GatewayConfig, routes: RoutesConfig, state: ReplicatedState, pace: Pace) -> None:
        self.places = Places(config.peers, routes.via)
        self.config = config
        self._injector = Injector(local.address)
        self._me = local.address
        self._state = state
        self._watermarks = Watermarks(state)
        self._peering = Peering(local, config, self.places.of, state, self._watermarks, self._injector)
        self._table = self._peering.table
        self._coordination = Coordination(local.address, config, self.places.of, state, pace, self._table, self._injector)
        self._routes = Routes(local, routes, config.link, self._table)
        #: Since when (s) something waits for the next `turn`; None when nothing does.
        self._waiting_since: float | None = None

    # -- observation ---------------------------------------------------------------------------------------------------

    @property
    def active(self) -> bool:
        """True while this member relays."""
        return self._peering.view is not None

    @property
    def connections(self) -> Mapping[ConnectionId, Connection]:
        """All connections, including those that are not a link yet."""
        return self._table.connections

    @property
    def links(self) -> Mapping[Key, ConnectionId]:
        """The connection that is the link to each lineage."""
        return self._table.links

    def linked(self, site: str) -> bool:
        """True when the relay of some lineage of the site is linked."""
        return self._table.linked(site)

    @property
    def waiting(self) -> int:
        """Number of entries that wait to be cast, or were cast and have not come back through the stream."""
        return len(self._injector)

    def levels(self) -> dict[str, Level]:
        """How full each bounded queue and table is."""
        return gateway_levels(self._injector, self._routes, self._peering, self.config)

    # -- views of this site --------------------------------------------------------------------------------------------

    def installed(self, view: View, fit: bool, blocked: bool, now: float) -> list[Effect]:
        """RELAY's "Becoming coordinator" and "Ceasing to be coordinator": a view is installed, and this member relays or not.

        `fit`: it may speak for its site. `blocked`: the flush of the next view has begun already.
        """
        if fit and view.coordinator == self._me:
            effects = self._coordinate(view, blocked, now)
        else:
            effects = self.resign(Ending.NOT_RELAY, now)
            self._injector.close()
        return [*effects, *self._coordination.retention.installed(view)]

    def _coordinate(self, view: View, blocked: bool, now: float) -> list[Effect]:
        """Relay in this view; this member may have relayed in the one before."""
        self._table.acknowledge(self._watermarks.installed(alone=len(view.members) == 1))
        self._injector.reopen(blocked)
        self._coordination.begin()
        self._waiting_since = now
        return self._carry(self._peering.begin(view, now), now)

    def resign(self, reason: Ending, now: float) -> list[Effect]:
        """Stop relaying and close all connections, should this member relay."""
        self._waiting_since = None
        self._coordination.end()
        view = self._peering.view
        return [] if view is None else self._carry(self._peering.resign(view, reason, now), now)

    def merged(self, now: float) -> list[Effect]:
        """The parts of this site have merged; the merge view follows. Entries cast in a part are lost with its last view."""
        self._injector.close()
        if not self.active:
            return []
        self._coordination.start_over()
        return self._carry(self._peering.start_over(now), now)

    def blocked(self) -> None:
        """A flush has begun: nothing may be put into the stream until the next view."""
        self._injector.block()

    def unblocked(self, view: View, now: float) -> list[Effect]:
        """The quarantine of this member has ended in this view: its coordinator relays, or continues to."""
        if view.coordinator != self._me:
            return []
        if self._peering.view != view:
            return self._coordinate(view, False, now)
        self._injector.unblock()
        return []

    # -- the stream ----------------------------------------------------------------------------------------------------

    def on(self, frame: Frame, entry: Header, outcome: Outcome, now: float) -> list[Effect]:
        """Follow up an entry of this site's stream that the replica has applied, with this outcome."""
        mine = frame.source == self._me
        if mine:
            self._injector.delivered()
        effects: list[Effect] = []
        if isinstance(entry, HeldFor):
            effects += self._coordination.retention.compare()
        elif isinstance(entry, SiteSwitch):
            self._coordination.switched(entry)
        if self.active:
            for admitted in admitted_by(frame, entry, outcome):
                self._table.acknowledge(self._watermarks.admitted(admitted))
        return [*effects, *self._follow_up(frame, entry, outcome, mine, now)] if self.active else effects

    def _follow_up(self, frame: Frame, entry: Header, outcome: Outcome, mine: bool, now: float) -> list[Effect]:
        """What a relay does about an entry; `mine`: it has brought it itself."""
        effects: list[Effect] = []
        self._waiting_since = now
        match entry:
            case Relayed() if outcome.admission is Admission.HOLE and frame.batch is not None and mine:
                self._peering.refused(frame.batch.site)
            case RemoteView(site, view) if outcome.admission is Admission.NEXT:
                self._peering.shown((site, view.lineage), now)
                effects += self._carry(self._peering.ended(site, outcome.ended, now), now)
            case SiteDown():
                effects += self._carry(self._peering.went_down(entry, now), now)
            case SiteSwitch():
                effects += self._carry(self._peering.switched(entry, now), now)
            case HeldFor() if outcome.position is not None:
                self._watermarks.appended(frame.stream, frame.seqno, outcome.position)
        return effects

    def appended(self, frame: Frame, position: int, now: float) -> None:
        """A batch of this site was appended to the buffer at this position."""
        if self.active:
            self._watermarks.appended(frame.stream, frame.seqno, position)
            self._waiting_since = now

    def held(self, vector: dict[Address, int], now: float) -> None:
        """At least one other member holds the streams of this view up to these numbers, per stream."""
        if self.active and self._watermarks.held(vector):
            self._waiting_since = now

    def stable(self, vector: dict[Address, int], now: float) -> None:
        """Every member has the streams of this view up to these numbers, per stream."""
        if self.active and (settled := self._watermarks.stable(vector.get(self._me, 0))):
            self._table.acknowledge(settled)
            self._waiting_since = now

    def heard(self, member: Address, entry: Configured, now: float) -> None:
        """Another member's configuration names other sites than those that the stream is held for."""
        self._coordination.retention.heard(member, entry)
        self._waiting_since = now

    def change_peers(self, peers: Mapping[str, tuple[Physical, ...]], now: float) -> list[Effect]:
        """This member's configuration has these neighbours from now on: call new ones, and end links to those that are gone."""
        self._waiting_since = now
        effects = self._carry(self._peering.change_places(self.places.change(peers), now), now)
        return [*effects, *self._coordination.retention.change(self.places.sites)]

    def switch(self, site: str, is_offline: bool, now: float) -> list[Effect]:
        """An operator wants another site offline, or online again, as this member or another one was told."""
        self._waiting_since = now
        return self._coordination.switch(site, is_offline)

    # -- TCP connections: events of the shell --------------------------------------------------------------------------

    def connected(self, event: BridgeConnected, now: float) -> list[Effect]:
        """A TCP connection is ready."""
        return self._carry(self._peering.connected(event.connection, event.dialed, event.certified, now), now)

    def received(self, event: BridgeReceived, now: float) -> list[Effect | Arrived]:
        """Bytes have come. Unicasts among them and answers to unicasts are returned in their order, for the layer."""
        arrived: deque[Arrived | Piece] = deque()
        effects: list[Effect | Arrived] = [*self._receive(event.connection, event.data, arrived, now)]
        while arrived:
            each = arrived.popleft()
            effects += self._take_piece(each, arrived, now) if isinstance(each, Piece) else [each]
        return [*effects, *self._injector.release()]

    def written(self, event: BridgeWritten, now: float) -> list[Effect]:
        """The kernel has taken the last chunk: the next one may be sent, and is at once if there is more to say."""
        if self._table.written(event.connection):
            self._waiting_since = now
        return []

    def closed(self, event: BridgeClosed, now: float) -> list[Effect]:
        """A TCP connection has ended."""
        return self._carry(self._peering.closed(event.connection, now), now)

    def dial_failed(self, event: DialFailed, now: float) -> list[Effect]:
        """A call was not answered."""
        self._peering.call_failed(event.site, event.address, now)
        return []

    def send_unicast(self, site: str, member: Address, frame: ForOne) -> UnicastRefusal | None:
        """Queue a unicast, or an answer, on the link to the part of `site` that `member` is in; returns why not, or None."""
        remote = self._state.remotes.get(site)
        return self._table.send_unicast(site, [] if remote is None else remote.lineages_of(member), frame)

    # -- turns and time ------------------------------------------------------------------------------------------------

    def turn(self, now: float) -> list[Effect]:
        """End a turn, or act at a deadline: do what is due, fill the links, and cast what belongs into the stream."""
        self._waiting_since = None
        if not self.active:
            return []
        effects = self._follow_routes(now)
        wanted = self._peering.due(now)
        self._coordination.due(now)
        self._table.touch_all()
        wanted += self._table.fill(now)
        while wanted:
            effects += self._carry(wanted, now)
            wanted = [*self._table.fill(now)]  # routes have put pieces on links that were filled before
        return [*effects, *self._injector.release()]

    def deadline(self) -> float | None:
        """Time (s) at which `turn` must be called; None when nothing is due."""
        if not self.active:
            return self._waiting_since
        dues = [self._waiting_since, self._peering.deadline()]
        return self._coordination.deadline(min([due for due in dues if due is not None], default=None))

    # -- routes --------------------------------------------------------------------------------------------------------

    def _carry(self, effects: Iterable[LinkEffect], now: float) -> list[Effect]:
        """Carry out effects on routes here, and turn those on TCP connections into effects for the shell."""
        rest: list[Effect] = []
        for effect in effects:
            match effect:
                case Call(site, place):
                    rest += self._call(site, place, now) if isinstance(place, Via) else [Up(Dial(site, place))]
                case Send(to, data):
                    rest += self._write(to, data, now) if isinstance(to, RouteId) else [Up(BridgeSend(to, data))]
                case Close(to, reason):
                    rest += self._routes.end(to) if isinstance(to, RouteId) else [Up(BridgeClose(to, reason))]
                case _:
                    rest.append(effect)
        return rest

    def _call(self, site: str, via: Via, now: float) -> list[Effect]:
        route = self._routes.open(site, via)
        if route is None:
            self._peering.call_failed(site, via, now)
            return []
        return self._carry(self._peering.connected(route, (site, via), None, now), now)

    def _write(self, route: RouteId, data: bytes, now: float) -> list[Effect]:
        event = self._routes.write(route, data)
        return [] if event is None else self._on_route(event, now)

    def _on_route(self, event: RouteEvent, now: float) -> list[Effect]:
        """React to an event of a route as to the shell's event of a TCP connection."""
        match event:
            case Opened(route, site):
                # `Routes` accepts a route only over the link towards its source, so it may speak for this site alone.
                return self._carry(self._peering.connected(route, None, site, now), now)
            case Written(route):
                self._table.written(route)
                return []
            case Ended(route):
                return self._carry(self._peering.closed(route, now), now) if self._routes.forget(route) else []
            case Broken(route, reason):
                lost = [Dropped(reason), *self._routes.end(route)]
                return [*lost, *self._carry(self._peering.closed(route, now), now)]
            case Dropped():
                return [event]

    def _receive(self, connection: ConnectionId, data: bytes, arrived: deque[Arrived | Piece], now: float) -> list[Effect]:
        effects, news = self._peering.received(connection, data, now)
        arrived += news
        return self._carry(effects, now)

    def _take_piece(self, piece: Piece, arrived: deque[Arrived | Piece], now: float) -> list[Effect]:
        """Take a piece of a route: it may open or end a route at this relay, and carry bytes of its far end."""
        effects: list[Effect] = []
        for event in self._routes.arrived(*piece):
            if isinstance(event, Came):
                effects += self._receive(event.route, event.data, arrived, now)
            else:
                effects += self._on_route(event, now)
        return effects

    def _follow_routes(self, now: float) -> list[Effect]:
        """End routes whose link has ended, call sites whose neighbour is linked again, send pieces that waited for room."""
        effects: list[Effect] = []
        for orphan in self._routes.orphans():
            effects += self._on_route(orphan, now)
        for site in self._routes.reachable_again():
            self._peering.expect(site, now)
        for event in self._routes.retry():
            effects += self._on_route(event, now)
        return effects
