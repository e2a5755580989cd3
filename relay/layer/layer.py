"""RELAY of JGroups: between Batching and Sequencer; every member runs it over the same stream.

Up: the layer holds this site's batches of scope ALL and its views for other sites, and applies the
coordinator's entries (`replica/replica.py`) at the same point of the stream. Down: unicasts to a
`ProxyUUID` travel through the relay. A batch of another site has the local relay as its source on
the wire and its sender on delivery (R13). It is never held for other sites, so it cannot loop
(REL-8).

The gateway is part of this layer: the shell's events about TCP connections come down to it, and its
effects travel up (`relay/events.py`). So a shell or a simulator drives only the stack.
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
from relay.replica.remote_site import Admission
from relay.replica.replica import ENTRIES, Replica
from relay.replica.site_state import STATE_FRAMES, StateFrame
from relay.replica.spill import SpillDisk
from relay.replica.vectors import bound
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

#: Messages of this site (None) and of other sites, which move no deadline of a member that does not
#: relay; a relay asks for its deadlines at the end of every turn.
_MOVES_NOTHING = (None, wire.Relayed)


@dataclass(frozen=True, slots=True)
class RelayConfig:
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
    """The layer (traps R1 to R29). Bounds: those of the replica, the gateway and unicasts."""

    name = "relay"
    STATE = wire.RelayState
    HEADERS: ClassVar[dict[int, type[Header]]] = {**wire.HEADERS, **STATE_FRAMES}
    FRAMES_DOWN = "unicasts"
    FLUSH_IF = ("_touched",)
    PASSES_LANES = True

    def __init__(self, local: Local, config: RelayConfig, disk: SpillDisk | None = None) -> None:
        """`disk`: this member's store for spilled entries, if a spill is configured."""
        self._replica = Replica(local.address, local.site, config.buffer, config.sites, config.gateway.when_down, disk)
        self.state = self._replica.state
        self.pace = self._replica.pace
        self.gateway = Gateway(local, config.gateway, config.routes, self.state, self.pace)
        #: The sites in the last `Pacing` event.
        self._waiting_for: tuple[str, ...] = ()
        self._spill = self.state.buffer.spill
        self._handover = Handover(local, self.state)
        self.unicasts = UnicastRoutes(local, config.unicast, self.state, self.gateway)
        self.site_state = SiteState(local, config.site_state, self.state, self.gateway)
        #: Proxies for senders of other sites: one object per sender and view, rather than one per
        #: batch.
        self._proxies: dict[tuple[str, Address], ProxyUUID] = {}
        self._leave_wait_s = config.unicast.leave_wait_s
        self._leave_due: float | None = None
        self._now = 0.0
        #: Whether anything came to this layer since the last `flush`.
        self._touched = False
        #: Since when (s) a unicast's reply may wait for the next `flush`; None without one.
        self._waiting_since: float | None = None
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
        self._from_below: dict[type[Event], Callable[[Any, float], list[Effect]]] = {
            **self.site_state.from_below,
            ViewInstalled: self.view_installed,
            Blocked: self._blocked,
            Unblocked: self.gateway.unblocked,
            Held: self.gateway.held,
            Stable: self._stable,
            Offered: self._handover.offered,
            Undeliverable: self.unicasts.undeliverable,
            Left: lambda _, now: self.gateway.leave(Ending.LEFT, now),
        }
        #: Handlers of frames from below, by the type of their last header; None: a message of this
        #: site.
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
        if isinstance(event, Frame) and not isinstance(event.dest, ProxyUUID):
            return [Down(event)]
        self._now, self._touched = now, True
        self.stale.add(self)
        if isinstance(event, Frame):
            assert isinstance(event.dest, ProxyUUID)
            return self.unicasts.send(event, event.dest, now)
        handle = self._from_above.get(type(event))
        return [Down(event)] if handle is None else handle(event, now)

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) for the stream and other sites' unicasts; also views, held and stable vectors."""
        if isinstance(event, Frame) and event.dest is not None and not event.headers:
            return [Up(event)]
        self._now, self._touched = now, True
        if isinstance(event, Frame):
            kind = type(event.headers[-1]) if event.headers else None
            if kind not in _MOVES_NOTHING or self.gateway.active or self._spill is not None:
                self.stale.add(self)
            handle_frame = self._frames.get(kind)
            return [Up(event)] if handle_frame is None else handle_frame(event, now)
        if self.gateway.active or not isinstance(event, Stable | Held):
            self.stale.add(self)
        handle = self._from_below.get(type(event))
        return [Up(event)] if handle is None else handle(event, now)

    def message(self, frame: Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) without a header: hold a multicast of this site for the others, and pass it
        up.

        In RELAY the second in line "buffers the last N messages"; here every member buffers them
        until the other sites acknowledge.
        """
        batch = frame.batch
        if frame.dest is None and batch is not None and batch.scope is Scope.ALL:
            if self.state.sites:
                self.gateway.appended(frame, self.state.append(batch, now), now)
            else:
                self.state.produced[batch.origin] = batch.last  # where a site begins that is added later
        return [Up(frame)]

    def entry(self, frame: Frame, now: float) -> list[Effect]:
        """RELAY.up(msg) with DISSEMINATE or VIEW, and any other entry cast by the coordinator.

        An admitted message of another site passes up with its sender, as a proxy.
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
        """RELAY's ProxyUUID(D, C): a member of another site, reached through this site's relay."""
        found = self._proxies.get((site, origin))
        if found is None:
            assert self.state.view is not None
            found = self._proxies[site, origin] = ProxyUUID(origin, site, self.state.view.coordinator)
            bound(self._proxies)
        return found

    def _stable(self, event: Stable, now: float) -> list[Effect]:
        self.gateway.stable(event.vector, now)
        return [Up(event)]

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

    def view_installed(self, event: ViewInstalled, now: float) -> list[Effect]:
        """RELAY's "Local view changed", and becoming or ceasing to be coordinator.

        A merge applies first.
        """
        relay, view = self.state.relay, event.view
        effects: list[Effect] = []
        begun = self._replica.merge(view, now)
        if begun is not None:
            self.site_state.told(begun)
            effects += [Up(baseline) for baseline in begun]
            effects += self.gateway.merged(now)
        effects += [Up(baseline) for baseline in self._replica.install(view, event.previous is None, now)]
        self.site_state.installed(event.previous is None)
        self._proxies.clear()
        self._handover.clear()
        effects += self.gateway.installed(view, event.quarantined, event.blocked, now)
        effects += [Up(event) for event in self._replica.update()]
        if self.state.relay != relay:
            effects += self.unicasts.relay_changed(now)
        return effects

    def _blocked(self, event: Blocked, now: float) -> list[Effect]:
        """Begin a view change: send due acknowledgements over this view's relay."""
        self.gateway.blocked()
        return self.unicasts.acknowledge(now, at_once=True)

    def _switch_requested(self, frame: Frame, now: float) -> list[Effect]:
        entry = frame.headers[-1]
        assert isinstance(entry, wire.SwitchRequest)
        return self.gateway.switch(entry, now)

    def _disconnect(self, event: Disconnect, now: float) -> list[Effect]:
        """Leave once all unicasts are answered, at the latest after `leave_wait_s`."""
        self._leave_due = now if self.unicasts.sender.deadline() is None else now + self._leave_wait_s
        # This member's acknowledgements go over the links, which `flush` fills before the leave.
        return self._leave(now) if self._leave_due == now and not self.unicasts.receiver.owed else []

    def _leave(self, now: float) -> list[Effect]:
        """RELAY's "Leave TCP channel": report unanswered unicasts, send BYE, and leave this site."""
        self._leave_due = None
        effects = self.unicasts.leave(now)
        return [*effects, *self.gateway.leave(Ending.LEAVING, now), Down(Disconnect())]

    def flush(self, now: float) -> list[Effect]:
        self._now, self._waiting_since, self._touched = now, None, False
        if self.gateway.active:
            self.stale.add(self)
        if self._spill is not None:
            self._spill.expire(now)
        leaves = self._leave_due is not None
        effects = self.unicasts.acknowledge(now, at_once=leaves) if self.unicasts.receiver.owed else []
        if self.site_state.waiting is not None:
            effects += self.site_state.release()
        effects += self.gateway.turn(now)
        if self._leave_due is not None and (now >= self._leave_due or self.unicasts.sender.deadline() is None):
            effects += self._leave(now)
        waiting_for = self.pace.waits_for()
        if waiting_for != self._waiting_for:
            self._waiting_for = waiting_for
            effects.append(Up(Pacing(waiting_for)))
        return effects

    def expire(self, now: float) -> list[Effect]:
        """Forward unicasts again or give them up.

        `flush` meets the links' deadlines, so it runs too.
        """
        if given_up := self._handover.expire(now):
            return given_up
        return [*self.unicasts.expire(now), *self.site_state.expire(now), *self.flush(now)]

    def deadline(self) -> float | None:
        due, unicasts = self.gateway.deadline(), self.unicasts
        for each in (
            self._waiting_since,
            unicasts.sender.deadline(),
            unicasts.reply_due,
            self._leave_due,
            self.site_state.deadline(),
            self._handover.deadline(),
            None if self._spill is None else self._spill.deadline(),
        ):
            if each is not None and (due is None or each < due):
                due = each
        return due

    def pass_time(self, now: float) -> None:
        """Note the time (s) of a reader: without events, the lags of `statistics` grow by it alone."""
        self._now = max(self._now, now)

    def statistics(self) -> RelayStatistics:
        return relay_statistics(self.state, self.gateway, self._waiting_for, self.site_state, self._now)

    def levels(self) -> dict[str, Level]:
        levels = relay_levels(self.state, self.gateway, self.unicasts)
        return {**levels, **self._handover.levels(), **self.site_state.levels()}

    def give_state(self) -> Header | None:
        """Return the whole replicated state, for a joiner (R23, R29)."""
        return self.state.give()

    def give_known(self) -> Header | None:
        """Return the runs held or fetched here, which another part of the site may leave out."""
        self._handover.keep(self._now)
        return self._handover.known()

    def give_rest(self, known: tuple[Header, ...]) -> Header | None:
        """Return the replicated state without the bodies that all its recipients have."""
        takers = [header for header in known if isinstance(header, wire.HeldRuns)]
        return self.state.give(Known(takers))

    def take_state(self, state: Header) -> None:
        assert isinstance(state, wire.RelayState)
        entries, dropped = completed(state.entries, self._handover.find)
        self.state.adopt(replace(state, first=state.first + dropped, entries=entries), self._now)

    def merge_state(self, state: Header) -> None:
        """Store the state of another part of this site; the merge view follows."""
        assert isinstance(state, wire.RelayState)
        self._replica.merge_with(state, self._handover.find)
