"""Gateway: the relay of a site towards other sites. Every member has one; the coordinator's relays.

The layer reports views, entries of the stream, how far the stream is held and stable, and events of
TCP connections. The gateway returns effects, mostly once a turn. It changes the replicated state
only through entries in the stream.

Peering          connections, from HELLO to BYE: which to make, which to accept, frame handling
Carrier          TCP connections and routes
Watermarks       how far to send and to acknowledge
Coordination     entries of the coordinator alone: sites held for, slow sites, trims
Injector         queue of entries on their way into the stream
"""

from __future__ import annotations

from relay.events import BridgeReceived, BridgeWritten, Peers, SwitchSite
from relay.gateway.carrier import Carrier
from relay.gateway.config import GatewayConfig, RoutesConfig
from relay.gateway.connections import Ending, Place, Via
from relay.gateway.coordination import Coordination
from relay.gateway.injector import Injector
from relay.gateway.peering import Arrived, Peering
from relay.gateway.watermarks import Watermarks, admitted_by
from relay.replica.entries import Configured, HeldFor, Relayed, RemoteView, SiteDown, SiteSwitch, SwitchRequest
from relay.replica.outcome import Outcome
from relay.replica.pace import Pace
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address
from sitestack.model.events import Held, Unblocked
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.view import View
from sitestack.stack.layer import Down, Effect, Local, Up

__all__ = ["Gateway", "GatewayConfig"]


class Gateway:
    """A member's relay.

    Bounds: those of its parts. Acknowledgements are cast at the end of each turn.
    """

    def __init__(self, local: Local, config: GatewayConfig, routes: RoutesConfig, state: ReplicatedState, pace: Pace) -> None:
        self._routed = {site: (Via(hop),) for site, hop in routes.via.items()}
        #: Places of each other site's relay. Always this object, which other parts refer to.
        self.places: dict[str, tuple[Place, ...]] = {**config.peers, **self._routed}
        self._config = config
        self._me = local.address
        self._state = state
        self._injector = Injector(local.address)
        self._watermarks = Watermarks(state)
        self._peering = Peering(local, config, self.places, state, self._watermarks, self._injector)
        self.table = self._peering.table
        self.carrier = Carrier(local, routes, config.link, self._peering)
        self._coordination = Coordination(
            local.address,
            config,
            self.places,
            state,
            pace,
            self.table,
            self._watermarks,
            self._injector,
            self._peering.grace,
        )
        #: Whether this member coordinates the view, and relays.
        self.active = False
        #: Whether this member leaves its site and never relays again.
        self._has_left = False
        #: Time (s) at which `turn` has work; None when only `Peering` or `Coordination` may have
        #: some.
        self._turn_due: float | None = None

    def levels(self) -> dict[str, Level]:
        config, routes, injector = self._config, self.carrier.routes, self._injector
        return {
            "waiting_bytes": Level.of(injector.waiting_bytes, config.waiting_bytes_max, high=injector.waiting_bytes_high),
            "routed_bytes": Level.of(routes.queued_bytes, config.link.routed_bytes_max, high=routes.queued_bytes_high),
            "routes": Level.of(len(routes), routes.routes_max, "each is a link"),
            "connections": Level.of(len(self._peering.accepted), config.connections_max, "a relay has one for each link"),
        }

    def installed(self, view: View, quarantined: bool, blocked: bool, now: float) -> list[Effect]:
        """RELAY's "Becoming coordinator" and "Ceasing to be coordinator".

        `quarantined`: another part speaks for the site. `blocked`: the next view's flush has begun
        already.
        """
        if view.coordinator == self._me and not quarantined and not self._has_left:
            effects = self._start_relaying(view, blocked, now)
        else:
            effects = self._stop_relaying(Ending.NOT_RELAY, now)
            self._injector.close()
        return [*effects, *self._coordination.retention.installed(view)]

    def _start_relaying(self, view: View, blocked: bool, now: float) -> list[Effect]:
        self.table.acknowledge(self._watermarks.installed(alone=len(view.members) == 1))
        self._injector.reopen(blocked)
        if not self.active:
            self._coordination.start_over()
        self._coordination.begin_view()
        self.active, self._turn_due = True, now
        return self.carrier.carry_out(self._peering.begin(view, now), now)

    def _stop_relaying(self, reason: Ending, now: float) -> list[Effect]:
        self._turn_due = None
        view = self._peering.view
        if self.active:
            self.active = False
            self._watermarks.clear()
        return [] if view is None else self.carrier.carry_out(self._peering.resign(view, reason, now), now)

    def leave(self, reason: Ending, now: float) -> list[Effect]:
        effects = self._stop_relaying(reason, now)
        self._has_left = True
        return effects

    def merged(self, now: float) -> list[Effect]:
        """Start over after a merge of this site's parts, in which cast entries are lost."""
        self._injector.close()
        if not self.active:
            return []
        self._coordination.start_over()
        return self.carrier.carry_out(self._peering.start_over(now), now)

    def blocked(self) -> None:
        """Stop casting until the next view or `unblocked`: a flush has begun."""
        self._injector.is_open = False

    def unblocked(self, event: Unblocked, now: float) -> list[Effect]:
        """Relay if this member coordinates: its quarantine has ended without a merge."""
        view = self._state.view
        if view is None or view.coordinator != self._me or self._has_left:
            return []
        if self._peering.view != view:
            return self._start_relaying(view, False, now)
        self._injector.is_open = True
        return []

    def applied(self, frame: Frame, entry: Header, outcome: Outcome, now: float) -> list[Effect]:
        """Follow up an applied entry of this site's stream."""
        mine = frame.source == self._me
        if mine:
            self._injector.delivered()
        effects: list[Effect] = []
        if isinstance(entry, HeldFor):
            effects += self._coordination.retention.compare()
        elif isinstance(entry, SiteSwitch):
            self._coordination.switched(entry)
        return [*effects, *self._follow_up(frame, entry, outcome, mine, now)] if self.active else effects

    def _follow_up(self, frame: Frame, entry: Header, outcome: Outcome, mine: bool, now: float) -> list[Effect]:
        """Do a relay's part for an entry; `mine`: this member has cast it."""
        for admitted in admitted_by(frame, entry, outcome):
            self.table.acknowledge(self._watermarks.admitted(admitted))
        self._turn_due = now
        peering = self._peering
        match entry:
            case Relayed() if outcome.admission is Admission.HOLE and frame.batch is not None and mine:
                peering.refused(frame.batch.site)
            case RemoteView(site, view) if outcome.admission is Admission.NEXT:
                peering.shown((site, view.lineage), now)
                return self.carrier.carry_out(peering.ended(site, outcome.ended, now), now)
            case SiteDown():
                peering.went_down(entry)
            case SiteSwitch():
                return self.carrier.carry_out(peering.switched(entry, now), now)
            case HeldFor():
                peering.grace.left_out()
                if outcome.position is not None:
                    self._watermarks.appended(frame.stream, frame.seqno, outcome.position)
        return []

    def appended(self, frame: Frame, position: int, now: float) -> None:
        if self.active:
            self._watermarks.appended(frame.stream, frame.seqno, position)
            self._turn_due = now

    def held(self, event: Held, now: float) -> list[Effect]:
        if self.active and self._watermarks.held(event.vector):
            self._turn_due = now
        return []

    def stable(self, vector: dict[Address, int], now: float) -> None:
        if self.active and (settled := self._watermarks.stable(vector.get(self._me, 0))):
            self.table.acknowledge(settled)
            self._turn_due = now

    def configured(self, frame: Frame, now: float) -> list[Effect]:
        """Note another member's configuration, which differs from the list of sites held for."""
        entry = frame.headers[-1]
        assert isinstance(entry, Configured)
        self._coordination.retention.heard(frame.source, entry)
        self._turn_due = now
        return []

    def change_peers(self, event: Peers, now: float) -> list[Effect]:
        self._turn_due = now
        gone = [site for site in self.places if site not in event.places and site not in self._routed]
        self.places.clear()
        self.places.update({**event.places, **self._routed})
        effects = self.carrier.carry_out(self._peering.change_places(gone, now), now)
        return [*effects, *self._coordination.retention.change(self.places)]

    def switch(self, order: SwitchSite | SwitchRequest, now: float) -> list[Effect]:
        """Take another site offline or online for an operator: cast an entry, or ask the coordinator."""
        self._turn_due = now
        view = self._state.view
        if view is None or order.site not in self._state.sites:
            return []
        if self.active:
            self._coordination.switch(order.site, order.is_offline)
            return []
        request = Frame(self._me, view.coordinator, (SwitchRequest(order.site, order.is_offline),))
        return [Down(request)] if view.coordinator != self._me else []

    def received(self, event: BridgeReceived, now: float) -> list[Effect | Arrived]:
        """Process bytes of a TCP connection; return its unicasts and answers in order, for the layer."""
        return [*self.carrier.received(event, now), *self._injector.release()]

    def written(self, event: BridgeWritten, now: float) -> list[Effect]:
        if self.table.written(event.connection):
            self._turn_due = now
        return []

    def turn(self, now: float) -> list[Effect]:
        """End a turn, or act at a deadline."""
        self._turn_due = None
        if not self.active:
            return []
        effects = self.carrier.follow_routes(now)
        wanted = self._peering.due(now)
        by_rule = [Up(order) for order in self._coordination.due(now)]
        return [*effects, *by_rule, *self.carrier.fill(wanted, now), *self._injector.release()]

    def deadline(self) -> float | None:
        """Time (s) at which `turn` must be called; None when nothing is due."""
        if not self.active:
            return self._turn_due
        due = self._coordination.deadline(self._peering.deadline())
        return due if self._turn_due is None or (due is not None and due <= self._turn_due) else self._turn_due
