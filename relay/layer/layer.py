"""RELAY of JGroups: between Batching and Sequencer; every member runs it over the same stream.

Up: this site's batches of scope ALL and its views are held for the other sites; entries that the coordinator has
cast are applied (`replica/replica.py`), at the same point at every member. Down: unicasts to a `ProxyUUID` take the way over
the relay; all else passes. A batch from elsewhere keeps the local relay as its source on the wire and gets its sender back on
delivery (R13); it is never held for other sites, so it cannot run in circles (REL-8).

The gateway lives in this layer and is driven with it: what happens to the shell's TCP connections comes down as events, what to
do about them goes up (`relay/events.py`). So the stack is the only thing that a shell or a simulator has to drive.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.events import (
    BridgeClosed,
    BridgeConnected,
    BridgeReceived,
    BridgeWritten,
    Certainty,
    DialFailed,
    Failure,
    Unreachable,
)
from relay.gateway.connections import Ending, LinkEffect
from relay.gateway.gateway import Gateway, GatewayConfig
from relay.gateway.injector import Injector
from relay.gateway.routes import Routes, RoutesConfig
from relay.gateway.wire import Routed
from relay.layer.statistics import RelayStatistics, relay_levels, relay_statistics
from relay.replica.buffer import BufferConfig
from relay.replica.entries import HEADERS, Configured, DeliverUnicast, ForwardUnicast, Relayed, RelayState, UnicastReply
from relay.replica.remote_site import Admission
from relay.replica.replica import ENTRIES, Replica
from relay.unicast.forwarding import UnicastRoutes
from relay.unicast.sender import RemoteUnicastConfig
from sitestack.journal.recorder import own_unicasts
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.events import Blocked, Disconnect, Event, Held, Left, Stable, StateAwaited, Undeliverable, ViewInstalled
from sitestack.model.frame import Frame, Header
from sitestack.model.level import Level
from sitestack.model.message import Batch, Scope
from sitestack.stack.layer import Down, Dropped, Effect, Layer, Local, Up


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """All members of a site have the same."""

    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    buffer: BufferConfig = field(default_factory=BufferConfig)
    unicast: RemoteUnicastConfig = field(default_factory=RemoteUnicastConfig)
    routes: RoutesConfig = field(default_factory=RoutesConfig)

    @property
    def sites(self) -> tuple[str, ...]:
        """All other sites, the neighbours and those behind them, in order of their names."""
        return tuple(sorted({**self.gateway.peers, **self.routes.via}))


class RelayLayer(Layer):
    """The layer (traps R1 to R29). Bounds: those of the buffer, the gateway, the two parts of the unicasts."""

    name = "relay"
    HEADERS = HEADERS
    FRAMES_DOWN = "unicasts"

    def __init__(self, local: Local, config: RelayConfig) -> None:
        self._replica = Replica(local.address, local.site, config.buffer, config.sites)
        self.state = self._replica.state
        self.injector = Injector(local.address)
        self.gateway = Gateway(local, config.gateway, config.routes.via, self.state, self.injector)
        self.routes = Routes(local, config.routes, self.gateway)
        self.unicasts = UnicastRoutes(local, config.unicast, self.state, self.gateway)
        #: The sources of what is delivered: one object for each, for as long as a view lasts.
        self._proxies: dict[tuple[str, Address], ProxyUUID] = {}
        self._leave_wait_s = config.unicast.leave_wait_s
        self._site = local.site
        self._me = local.address
        self._leaving = False
        #: Until when a leave waits for answers to unicasts; None while none waits.
        self._leave_due: float | None = None
        self._now = 0.0
        #: Since when something waits for the next `flush`.
        self._waiting_since: float | None = None

    # -- from above ----------------------------------------------------------------------------------------------------

    def down(self, event: Event | Frame, now: float) -> list[Effect]:
        """Unicasts to other sites, and what the shell says of its connections."""
        self._now = now
        if isinstance(event, Frame):
            return self._forward(event, now) if isinstance(event.dest, ProxyUUID) else [Down(event)]
        return self._hear(event, now)

    def _hear(self, event: Event, now: float) -> list[Effect]:
        if isinstance(event, BridgeReceived):
            effects = self.gateway.received(event.connection, event.data, now)
            return self.routes.carry([*effects, *self._settle(now)], now)
        if isinstance(event, BridgeWritten):
            return self.routes.carry(self.gateway.written(event.connection), now)
        if isinstance(event, BridgeConnected):
            return self.routes.carry(self.gateway.connected(event.connection, event.dialed, event.certified, now), now)
        if isinstance(event, BridgeClosed):
            return self.routes.carry(self.gateway.closed(event.connection, now), now)
        if isinstance(event, DialFailed):
            return self.routes.carry(self.gateway.dial_failed(event.site, event.address, now), now)
        if isinstance(event, Disconnect):
            self._leave_due = now if self.unicasts.deadline() is None else now + self._leave_wait_s
            return self._leave(now) if self._leave_due == now else []
        return [Down(event)]

    def _leave(self, now: float) -> list[Effect]:
        """Go, with a farewell to the other sites."""
        self._leave_due, self._leaving = None, True
        effects = self.unicasts.leave(now)
        effects += self.routes.carry(self.gateway.resign(Ending.LEAVING, now), now)
        return [*effects, Down(Disconnect())]

    def _forward(self, frame: Frame, now: float) -> list[Effect]:
        dest, batch = frame.dest, frame.batch
        assert isinstance(dest, ProxyUUID)
        assert batch is not None
        if dest.site == self._site:
            return [Down(Frame(frame.source, dest.original, frame.headers, batch))]
        return self.unicasts.send(dest, batch, now)

    # -- from below ----------------------------------------------------------------------------------------------------

    def up(self, event: Event | Frame, now: float) -> list[Effect]:
        """The stream, unicasts of this package, views, and how far the stream is held and stable."""
        self._now = now
        if isinstance(event, Frame):
            return self._frame(event, now)
        if isinstance(event, ViewInstalled):
            return self.routes.carry(self._installed(event, now), now)
        if isinstance(event, Blocked):
            self.injector.block()
            return []
        if isinstance(event, StateAwaited):
            self.state.inherit(event.provider, self._me)
            return []
        if isinstance(event, Left):
            return self.routes.carry(self.gateway.resign(Ending.LEFT, now), now)
        if isinstance(event, Undeliverable):
            return [Up(_unreachable(batch)) for batch in own_unicasts(event, self._site, self._me)]
        if isinstance(event, Held | Stable):
            passed: list[Effect] = [Up(event)] if isinstance(event, Stable) else []
            if self.gateway.active:
                held = isinstance(event, Held)
                news = (
                    self.gateway.watermarks.held(event.vector) if held else self.gateway.stable(event.vector.get(self._me, 0))
                )
                self._waiting_since = now if news else self._waiting_since
            return passed
        return [Up(event)]

    def _frame(self, frame: Frame, now: float) -> list[Effect]:
        if not frame.headers:
            if frame.dest is None and frame.batch is not None:
                self._hold(frame, frame.batch, now)
            return [Up(frame)]
        header = frame.headers[-1]
        if isinstance(header, ForwardUnicast | DeliverUnicast | UnicastReply):
            self._waiting_since = now
            return self._unicast(frame, header, now)
        if isinstance(header, Configured):
            self._waiting_since = now
            self.gateway.retention.heard(frame.source, header)
            return []
        if type(header) not in ENTRIES:
            return [Up(frame)]
        if frame.source == self._me:
            self.injector.delivered()
        if self.gateway.active:
            self._waiting_since = now
        return self._apply(frame, header, now)

    def _apply(self, frame: Frame, entry: Header, now: float) -> list[Effect]:
        """RELAY.up(msg) with a header: what the coordinator has put into the stream, DISSEMINATE and VIEW among it."""
        outcome = self._replica.apply(entry, frame.batch, now)
        effects = self.routes.carry(self.gateway.on(frame, entry, outcome, now), now)
        if outcome.admission is not Admission.NEXT:
            effects.append(Dropped(outcome.admission.value))
        elif type(entry) is Relayed and frame.batch is not None:
            effects.append(self._deliver(frame, frame.batch))
        return [*effects, *[Up(event) for event in outcome.events]]

    def _deliver(self, frame: Frame, batch: Batch) -> Up:
        """A message of another site as if it came from its sender there, by way of the own relay."""
        name = (batch.site, batch.origin)
        source = self._proxies.get(name)
        if source is None:
            assert self.state.view is not None
            source = self._proxies[name] = ProxyUUID(batch.origin, batch.site, self.state.view.coordinator)
        return Up(Frame(source, None, (), batch, False, frame.seqno, frame.stream))

    def _unicast(self, frame: Frame, header: ForwardUnicast | DeliverUnicast | UnicastReply, now: float) -> list[Effect]:
        if isinstance(header, ForwardUnicast):
            return self.unicasts.relay(frame, header)
        if isinstance(header, DeliverUnicast):
            return self.unicasts.deliver(header.after, frame.batch)
        return self.unicasts.reply(header, now)

    def _hold(self, frame: Frame, batch: Batch, now: float) -> None:
        """In RELAY the second in line "buffers the last N messages"; here everybody does, until the other sites have them."""
        if batch.scope is Scope.ALL and self.state.sites:
            position = self.state.append(batch, now)
            if self.gateway.active:
                self.gateway.watermarks.appended(frame.stream, frame.seqno, position)
                self._waiting_since = now

    # -- views ---------------------------------------------------------------------------------------------------------

    def _installed(self, event: ViewInstalled, now: float) -> list[LinkEffect]:
        """RELAY's "Becoming coordinator", "Ceasing to be coordinator" and "Local view changed"."""
        old, view = self.state.view, event.view
        effects: list[LinkEffect] = []
        begun = self._replica.merge(view, now)
        if begun is not None:
            self.injector.close()
            effects += [Up(baseline) for baseline in begun]
            effects += self.gateway.start_over(now) if self.gateway.active else []
        effects += [Up(baseline) for baseline in self._replica.install(view, event.previous is None, now)]
        self._proxies.clear()
        if view.coordinator == self._me and not self._leaving:
            effects += self.gateway.installed(view, now)
            self.injector.reopen(event.blocked)
        else:
            effects += self.gateway.resign(Ending.NOT_RELAY, now)
            self.injector.close()
        effects += [Up(event) for event in self._replica.update()]
        effects += self.gateway.retention.installed(view)
        if old is None or old.coordinator != view.coordinator:
            effects += self.unicasts.relay_changed(now)
        # What the injector has waits for the end of the turn: cast here it would overtake, on its way
        # back up through this layer, what the layers below have put into the new view before it.
        self._waiting_since = now
        return effects

    # -- turns and time ------------------------------------------------------------------------------------------------

    def _settle(self, now: float) -> list[Effect]:
        """Pass on what the links brought."""
        effects: list[Effect] = []
        while self.gateway.arrived:  # a piece of a route may bring more
            arrived, self.gateway.arrived = self.gateway.arrived, []
            for site, frame in arrived:
                if isinstance(frame, Routed):
                    effects += self.routes.arrived(site, frame, now)
                else:
                    effects += self.unicasts.arrived(site, frame, now)
        return [*effects, *self.injector.take()]

    def flush(self, now: float) -> list[Effect]:
        """End of a turn: acknowledge unicasts, fill the links, cast what came of it."""
        self._now, self._waiting_since = now, None
        effects = [*self.unicasts.acknowledge(now), *self.routes.pump(now), *self.injector.take()]
        if self._leave_due is not None and (now >= self._leave_due or self.unicasts.deadline() is None):
            effects += self._leave(now)
        return effects

    def expire(self, now: float) -> list[Effect]:
        """Forward unicasts again; the links run in `flush`."""
        return [*self.unicasts.expire(now), *self.flush(now)]

    def deadline(self) -> float | None:
        """The earliest of the links' and the unicasts'; at once when something came after `flush`."""
        dues = [self._waiting_since, self.gateway.deadline(), self.unicasts.deadline(), self._leave_due]
        return min([due for due in dues if due is not None], default=None)

    def statistics(self) -> RelayStatistics:
        """How far each other site is behind."""
        return relay_statistics(self.state, self.gateway, self._now)

    def levels(self) -> dict[str, Level]:
        """What is held for the other sites, and remembered of them."""
        return relay_levels(self.state, self.gateway, self.injector, self.unicasts, self.routes)

    # -- joiners -------------------------------------------------------------------------------------------------------

    def give_state(self) -> Header | None:
        """Everything that is replicated (R23, R29)."""
        return self.state.give()

    def take_state(self, state: Header) -> None:
        """Continue where another member stands."""
        assert isinstance(state, RelayState)
        self.state.take(state, self._now)

    def merge_state(self, state: Header) -> None:
        """Another part of this site, split until now; the merge view follows."""
        assert isinstance(state, RelayState)
        self._replica.merge_with(state)


def _unreachable(batch: Batch) -> Unreachable:
    """Unicasts inside this site that were not acknowledged in time: the sender hears of them as of those to other sites."""
    assert batch.target is not None, "a unicast has a target"
    target = ProxyUUID(batch.target, batch.target_site)
    return Unreachable(target, batch.first, batch.last, Failure.UNACKNOWLEDGED, Certainty.UNKNOWN, batch.scope)
