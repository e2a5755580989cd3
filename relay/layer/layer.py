"""RELAY of JGroups: between Batching and Sequencer; every member runs it over the same stream.

Up: this site's batches of scope ALL and its views are held for the other sites; entries that the coordinator has cast are
applied (`replica/replica.py`), at the same point of the stream at every member. Down: unicasts to a `ProxyUUID` go by way of
the relay; all else passes. A batch of another site has the local relay as its source on the wire and gets its sender back on
delivery (R13). Such a batch is never held for other sites, so it cannot run in circles (REL-8).

The gateway is part of this layer: the shell's events about TCP connections come down to it, its effects on them go up
(`relay/events.py`). So a shell or a simulator has to drive the stack only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from relay.events import (
    BridgeClosed,
    BridgeConnected,
    BridgeReceived,
    BridgeWritten,
    Budget,
    DialFailed,
    Pacing,
    Peers,
    SwitchSite,
)
from relay.gateway.config import GatewayConfig, RoutesConfig
from relay.gateway.connections import Ending
from relay.gateway.gateway import Gateway
from relay.gateway.peering import Arrived
from relay.layer.handover import Handover
from relay.layer.statistics import RelayStatistics, relay_levels, relay_statistics
from relay.replica import entries as wire
from relay.replica.config import BufferConfig
from relay.replica.known import Known, completed
from relay.replica.pace import Pace
from relay.replica.remote_site import Admission
from relay.replica.replica import ENTRIES, Replica
from relay.replica.site_state import STATE_FRAMES, StateFrame
from relay.replica.spill import SpillDisk
from relay.site_state.config import SiteStateConfig
from relay.site_state.exchange import SiteState
from relay.unicast.config import RemoteUnicastConfig
from relay.unicast.forwarding import UnicastRoutes
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.events import Blocked, Disconnect, Event, Held, Left, Stable, Unblocked, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Scope
from sitestack.model.state_events import Offered
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """The layer's configuration. All members of a site must have the same."""

    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    buffer: BufferConfig = field(default_factory=BufferConfig)
    unicast: RemoteUnicastConfig = field(default_factory=RemoteUnicastConfig)
    routes: RoutesConfig = field(default_factory=RoutesConfig)
    site_state: SiteStateConfig = field(default_factory=SiteStateConfig)

    @property
    def sites(self) -> tuple[str, ...]:
        """All other sites, neighbours and those reached by routes, in order of their names."""
        return tuple(sorted({**self.gateway.peers, **self.routes.via}))


class RelayLayer(Layer):
    """The layer (traps R1 to R29). Bounds: those of the replica, the gateway, and the sender and receiver of unicasts."""

    name = "relay"
    HEADERS: ClassVar[dict[int, type[Header]]] = {**wire.HEADERS, **STATE_FRAMES}
    FRAMES_DOWN = "unicasts"

    def __init__(self, local: Local, config: RelayConfig, disk: SpillDisk | None = None) -> None:
        """`disk`: where what the budget takes goes, if a spill is configured; for this member alone."""
        self._replica = Replica(local.address, local.site, config.buffer, config.sites, disk)
        self.state = self._replica.state
        self.pace = Pace(self.state, config.gateway.when_down)
        self.gateway = Gateway(local, config.gateway, config.routes, self.state, self.pace)
        #: The sites that the senders of this member were last told to wait for.
        self._waiting_for: tuple[str, ...] = ()
        self._spill = self.state.buffer.spill
        self._handover = Handover(local, self.state)
        self.unicasts = UnicastRoutes(local, config.unicast, self.state, self.gateway)
        self.site_state = SiteState(local, config.site_state, self.state, self.gateway)
        #: Proxies as which senders of other sites are delivered, one object per sender and view, to spare one per batch.
        self._proxies: dict[tuple[str, Address], ProxyUUID] = {}
        self._leave_wait_s = config.unicast.leave_wait_s
        #: Time (s) until which a leave waits for answers to unicasts; None while no leave waits.
        self._leave_due: float | None = None
        self._now = 0.0
        #: Since when (s) the reply to a unicast may wait for the next `flush`; None when none does.
        self._waiting_since: float | None = None
        #: Handlers of events from above: the application's, and the shell's about its connections.
        self._from_above: dict[type[Event], Callable[[Any, float], list[Effect]]] = {
            **self.site_state.from_above,
            Budget: self._handover.change_budget,
            Peers: self.gateway.change_peers,
            SwitchSite: self.gateway.switch,
            Disconnect: self._disconnect,
            BridgeConnected: self.gateway.carrier.connected,
            BridgeReceived: self._bridge_received,
            BridgeWritten: self.gateway.written,
            BridgeClosed: self.gateway.carrier.closed,
            DialFailed: self.gateway.carrier.dial_failed,
        }
        #: Handlers of events from below: views, how far the stream is held and stable, and the end.
        self._from_below: dict[type[Event], Callable[[Any, float], list[Effect]]] = {
            **self.site_state.from_below,
            ViewInstalled: self.view_installed,
            Blocked: self._blocked,
            Unblocked: self.gateway.unblocked,
            Held: self.gateway.held,
            Stable: self._stable,
            Offered: self._handover.offered,
            Undeliverable: self.unicasts.undeliverable,
            Left: self._left,
        }
        #: Handlers of frames from below, by the type of their last header; None: a message of this site.
        self._frames: dict[type[Header] | None, Callable[[Frame, float], list[Effect]]] = {
            None: self.message,
            **dict.fromkeys(ENTRIES, self.entry),
            wire.ForwardUnicast: self._unicast,
            wire.DeliverUnicast: self._unicast,
            wire.UnicastReply: self._unicast,
            **dict.fromkeys(STATE_FRAMES.values(), self.site_state.up),
            wire.Configured: self.gateway.configured,
            wire.SwitchRequest: self._switch_requested,
            wire.HeldRequest: self._handover.step,
            wire.HeldChunk: self._handover.step,
        }

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """RELAY.down(msg) for unicasts to other sites; also the shell's events about its connections."""
        self._now = now
        if isinstance(event, Frame):
            return self.unicasts.send(event, event.dest, now) if isinstance(event.dest, ProxyUUID) else [Down(event)]
        handle = self._from_above.get(type(event))
        return [Down(event)] if handle is None else handle(event, now)

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) for the stream and unicasts of other sites; also views, and how far the stream is held and stable."""
        self._now = now
        if isinstance(event, Frame):
            handle_frame = self._frames.get(type(event.headers[-1]) if event.headers else None)
            return [Up(event)] if handle_frame is None else handle_frame(event, now)
        handle = self._from_below.get(type(event))
        return [Up(event)] if handle is None else handle(event, now)

    # -- the stream ----------------------------------------------------------------------------------------------------

    def message(self, frame: Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) without a header: a multicast of this site is held for the others, and passes up.

        In RELAY the second in line "buffers the last N messages"; here every member does, until the other sites have them.
        """
        batch = frame.batch
        if frame.dest is None and batch is not None and batch.scope is Scope.ALL and self.state.sites:
            self.gateway.appended(frame, self.state.append(batch, now), now)
        return [Up(frame)]

    def entry(self, frame: Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) with DISSEMINATE or VIEW, and any other entry that the coordinator puts into the stream.

        A message of another site that the replica admits gets its sender back, as a proxy, and passes up.
        """
        entry = frame.headers[-1]
        outcome = self._replica.apply(entry, frame.batch, now)
        effects = self.gateway.applied(frame, entry, outcome, now)
        if outcome.admission is not Admission.NEXT:
            effects.append(Dropped(outcome.admission.value))
        elif type(entry) is wire.Relayed and frame.batch is not None:
            source = self._proxy(frame.batch.site, frame.batch.origin)
            effects.append(Up(Frame(source, None, (), frame.batch, False, frame.seqno, frame.stream)))
        if outcome.events:
            self.site_state.told(outcome.events)
        return [*effects, *[Up(event) for event in outcome.events]]

    def _proxy(self, site: str, origin: Address) -> ProxyUUID:
        """RELAY's ProxyUUID(D, C): a member of another site, reached by way of this site's relay."""
        found = self._proxies.get((site, origin))
        if found is None:
            assert self.state.view is not None
            found = self._proxies[site, origin] = ProxyUUID(origin, site, self.state.view.coordinator)
        return found

    def _stable(self, event: Stable, now: float) -> list[Effect]:
        self.gateway.stable(event.vector, now)
        return [Up(event)]

    # -- unicasts ------------------------------------------------------------------------------------------------------

    def _unicast(self, frame: Frame, now: float) -> list[Effect]:
        self._waiting_since = now
        return self.unicasts.up(frame, now)

    def _bridge_received(self, event: BridgeReceived, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for each in self.gateway.received(event, now):
            if not isinstance(each, Arrived):
                effects.append(each)
            elif isinstance(each.frame, StateFrame):
                effects += self.site_state.step(each.frame, now)
            else:
                effects += self.unicasts.arrived(each.frame, now)
        return effects

    # -- views of this site --------------------------------------------------------------------------------------------

    def view_installed(self, event: ViewInstalled, now: float) -> list[Effect]:
        """RELAY's "Local view changed", and becoming or ceasing to be coordinator. A merge of the site's parts comes first."""
        relay, view = self.state.relay, event.view
        effects: list[Effect] = []
        begun = self._replica.merge(view, now)
        if begun is not None:
            self.site_state.told(begun)
            effects += [Up(baseline) for baseline in begun]
            effects += self.gateway.merged(now)
        effects += [Up(baseline) for baseline in self._replica.install(view, event.previous is None, now)]
        if event.previous is None:
            self.site_state.begin()
        self._proxies.clear()
        self._handover.clear()
        effects += self.gateway.installed(view, event.quarantined, event.blocked, now)
        effects += [Up(event) for event in self._replica.update()]
        if self.state.relay != relay:
            effects += self.unicasts.relay_changed(now)
        return effects

    def _blocked(self, event: Blocked, now: float) -> list[Effect]:
        """A view change begins. Who waits for an acknowledgement gets it by way of this view's relay."""
        self.gateway.blocked()
        return self.unicasts.acknowledge(now, at_once=True)

    def _switch_requested(self, frame: Frame, now: float) -> list[Effect]:
        entry = frame.headers[-1]
        assert isinstance(entry, wire.SwitchRequest)
        return self.gateway.switch(entry, now)

    def _disconnect(self, event: Disconnect, now: float) -> list[Effect]:
        """Leave as soon as all unicasts are answered, at the latest after `leave_wait_s`."""
        self._leave_due = now if self.unicasts.deadline() is None else now + self._leave_wait_s
        # Who waits for an acknowledgement of this member gets it over the links, which `flush` fills before it leaves.
        return self._leave(now) if self._leave_due == now and not self.unicasts.receiver.owed else []

    def _leave(self, now: float) -> list[Effect]:
        """RELAY's "Leave TCP channel": report what is unanswered, say BYE to the other sites, and leave this site."""
        self._leave_due = None
        effects = self.unicasts.leave(now)
        return [*effects, *self.gateway.leave(Ending.LEAVING, now), Down(Disconnect())]

    def _left(self, event: Left, now: float) -> list[Effect]:
        return self.gateway.leave(Ending.LEFT, now)

    # -- turns and time ------------------------------------------------------------------------------------------------

    def flush(self, now: float) -> list[Effect]:
        """End a turn: acknowledge unicasts, fill the links, cast entries, and leave if a leave has waited long enough."""
        self._now, self._waiting_since = now, None
        if self._spill is not None:
            self._spill.expire(now)
        leaves = self._leave_due is not None
        effects = [*self.unicasts.acknowledge(now, at_once=leaves), *self.site_state.flush(), *self.gateway.turn(now)]
        if self._leave_due is not None and (now >= self._leave_due or self.unicasts.deadline() is None):
            effects += self._leave(now)
        waiting_for = self.pace.waits_for()
        if waiting_for != self._waiting_for:
            self._waiting_for = waiting_for
            effects.append(Up(Pacing(waiting_for)))
        return effects

    def expire(self, now: float) -> list[Effect]:
        """Forward unicasts again or give them up. Deadlines of the links are met in `flush`, so that runs too."""
        if given_up := self._handover.expire(now):
            return given_up
        return [*self.unicasts.expire(now), *self.site_state.expire(now), *self.flush(now)]

    def deadline(self) -> float | None:
        """Time (s) at which links, unicasts or a leave are due, the first of them; at once when `flush` has work."""
        unicasts = self.unicasts
        dues = [self._waiting_since, self.gateway.deadline(), unicasts.deadline(), unicasts.reply_due, self._leave_due]
        dues += [self.site_state.deadline(), self._handover.deadline()]
        if self._spill is not None:
            dues.append(self._spill.deadline())
        return min([due for due in dues if due is not None], default=None)

    def statistics(self) -> RelayStatistics:
        """How the other sites are doing, for the status of this member."""
        return relay_statistics(self.state, self.gateway, self._waiting_for, self.site_state, self._now)

    def levels(self) -> dict[str, Level]:
        """How full each bounded queue and table of this layer is."""
        levels = relay_levels(self.state, self.gateway, self.unicasts)
        return {**levels, **self._handover.levels(), **self.site_state.levels()}

    # -- joiners -------------------------------------------------------------------------------------------------------

    def give_state(self) -> Header | None:
        """The whole replicated state, for a joiner (R23, R29)."""
        return self.state.give()

    def give_known(self) -> Header | None:
        """What this member holds, or has fetched, which another part of the site need not hand over."""
        self._handover.keep(self._now)
        return self._handover.known()

    def give_rest(self, known: tuple[Header, ...]) -> Header | None:
        """The replicated state, less the bodies that all have who are to take it."""
        takers = [header for header in known if isinstance(header, wire.HeldRuns)]
        return self.state.give(Known(takers))

    def take_state(self, state: Header) -> None:
        """Begin with another member's replicated state."""
        assert isinstance(state, wire.RelayState)
        entries, dropped = completed(state.entries, self._handover.find)
        self.state.adopt(replace(state, first=state.first + dropped, entries=entries), self._now)

    def merge_state(self, state: Header) -> None:
        """Take the state of another part of this site, which was split until now; the merge view follows."""
        assert isinstance(state, wire.RelayState)
        self._replica.merge_with(state, self._handover.find)
