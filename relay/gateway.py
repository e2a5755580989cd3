"""Gateway: the relay's side that faces the other sites. Every member has one; it is active while its member coordinates.

It decides whom to call, whom to believe and what to answer; a `LinkSession` does the talking on each connection. It reads the
replicated state, puts what arrives into the site's stream through the `Caster`, and says what to do as effects for the shell.

A HELLO below the highest epoch known of its lineage is refused; one with a higher epoch closes the older link before it is
answered (R6, R9); of two with equal epoch both ends keep the same one (R25, `relay/fence.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from relay.acknowledgements import Acknowledgements
from relay.casting import Caster
from relay.dialing import Dialer
from relay.events import (
    BridgeClose,
    BridgeConnected,
    BridgeSend,
    Dial,
    Duty,
    Listen,
    Misconfigured,
    Role,
    StopListening,
)
from relay.fence import Connection, Key, is_preferred, objection
from relay.grace import Grace
from relay.headers import LinkUp, RemoteBaseline, RemoteGap, RemoteView, SiteDown, SiteVector, Trim, UnicastReply
from relay.horizon import Admitted, Horizon
from relay.inflow import Inflow
from relay.link import LinkConfig, LinkSession
from relay.remote_site import Admission
from relay.state import ReplicatedState
from relay.vectors import later
from relay.wire import VERSION, Ack, Bye, Data, Hello, Routed, Unicast
from sitestack.address import Address, Physical
from sitestack.errors import ProtocolError
from sitestack.frame import Header
from sitestack.layer import Dropped, Effect, Local, Up
from sitestack.view import View, ViewId

#: Sentences for the operator that were said already, at most.
_SENTENCES_MAX = 64
#: On a route (`relay/routes.py`), whose connections have negative numbers: what may wait at the sites in between.
ROUTE_WINDOW_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The other sites. All members of a site have the same."""

    #: Addresses at which the relay of each other site may be found: those of all its members, or of a service before them.
    peers: dict[str, tuple[Physical, ...]] = field(default_factory=dict)
    link: LinkConfig = field(default_factory=LinkConfig)
    #: A site without a link keeps its members in the global view for this long; longer than a failover takes (G6).
    grace_s: float = 10.0
    #: First pause between two calls of an address; it doubles up to the maximum, with jitter.
    dial_s: float = 0.2
    dial_s_max: float = 5.0
    #: Connections at a time, those that have not said HELLO included.
    connections_max: int = 64
    #: Bytes from other sites that wait to be sequenced; a link that brings more is closed and replays later.
    waiting_bytes_max: int = 64 * 1024 * 1024


class Gateway:
    """The links of this site's relay. Bounds: `connections_max` sessions, each bounded by `LinkConfig`."""

    def __init__(self, local: Local, config: GatewayConfig, state: ReplicatedState, caster: Caster) -> None:
        self.config = config
        self.horizon = Horizon(state)
        self.view: View | None = None
        #: Unicasts, replies and pieces that have arrived, with the site they came from; the relay layer takes them.
        self.arrived: list[tuple[str, Unicast | UnicastReply | Routed]] = []
        self.connections: dict[int, Connection] = {}
        self.links: dict[Key, int] = {}
        self._local = local
        self._state = state
        self._caster = caster
        self._inflow = Inflow(local.site, state, caster)
        self._dialer = Dialer(config.peers, config.dial_s, config.dial_s_max, local.rng)
        self._grace = Grace(state, config.grace_s, state.buffer.config.budget_age_s)
        self._acks = Acknowledgements(state)
        self._trimming = -1
        self._link_number = 0
        self._said: dict[str, None] = {}
        self._role: Role | None = None

    @property
    def active(self) -> bool:
        """True while this member relays."""
        return self.view is not None

    # -- role ----------------------------------------------------------------------------------------------------------

    def installed(self, view: View, now: float) -> list[Effect]:
        """This member coordinates a view."""
        old, self.view = self.view, view
        self._settle(self.horizon.installed(len(view.members) == 1))
        self._trimming = -1
        effects: list[Effect] = []
        if old is None:
            self._dialer.start(now)
            self._grace.start(now)
            effects.append(Up(Listen()))
        elif old.lineage != view.lineage:
            # Links are keyed by lineage: the other part of a split site may continue the old one.
            for connection in list(self.connections):
                effects += self._close(connection, "lineage", now)
        return [*effects, *self._announce_role()]

    def start_over(self, now: float) -> list[Effect]:
        """The parts of this site have become one: what it has is to be asked and answered anew, on every link."""
        effects: list[Effect] = []
        for connection in list(self.connections):
            effects += self._close(connection, "merged", now)
        self._inflow.clear()
        self._acks.clear()
        self._grace.start(now)
        return effects

    def resign(self, reason: str, now: float) -> list[Effect]:
        """This member relays no more: say farewell everywhere. The peers ask the next relay what it needs all the same (R8)."""
        if self.view is None:
            return []
        effects: list[Effect] = []
        for connection in list(self.connections):
            effects += self._close(connection, reason, now)
        self._dialer.stop()
        self._inflow.clear()
        self._acks.clear()
        effects.append(Up(StopListening()))
        effects.append(Up(Role(Duty.MEMBER, self.view.id, ())))
        self._role = self.view = None
        return effects

    def _announce_role(self) -> list[Effect]:
        assert self.view is not None
        sites = tuple(sorted({site: None for site, _ in self.links}))
        role = Role(Duty.RELAY if sites else Duty.COORDINATOR, self.view.id, sites)
        if role == self._role:
            return []
        self._role = role
        return [Up(role)]

    # -- connections ---------------------------------------------------------------------------------------------------

    def connected(self, event: BridgeConnected, now: float) -> list[Effect]:
        """A connection is ready: say HELLO at once."""
        if self.view is None or len(self.connections) >= self.config.connections_max:
            self._hung_up(event.dialed, now)
            return [Dropped("bridge_refused"), Up(BridgeClose(event.connection, "not_relay"))]
        self._link_number += 1
        local, view = self._local, self.view
        window = min(self.config.link.window_bytes, ROUTE_WINDOW_BYTES if event.connection < 0 else 1 << 62)
        hello = Hello(VERSION, local.site, view.lineage, view.id, local.address, local.name, self._link_number, window)
        session = LinkSession(hello, self._state, self.horizon, self.config.link, now)
        self.connections[event.connection] = Connection(session, event.dialed, event.certified)
        return []

    def closed(self, connection: int, now: float) -> list[Effect]:
        """The connection has ended."""
        return self._forget(connection, now) if connection in self.connections else []

    def expect(self, site: str, now: float) -> None:
        """There is a way to a site again: call it soon."""
        if not self.linked(site):
            self._dialer.lost(site, now)

    def dial_failed(self, site: str, address: Physical, now: float) -> list[Effect]:
        """A call was not answered."""
        self._dialer.failed(site, address, now)
        return []

    def written(self, connection: int) -> list[Effect]:
        """The kernel has taken the last chunk."""
        if connection in self.connections:
            self.connections[connection].session.written()
        return []

    def _close(self, connection: int, reason: str, now: float) -> list[Effect]:
        farewell = self.connections[connection].session.farewell(reason)
        effects: list[Effect] = [Up(BridgeSend(connection, farewell))] if farewell else []
        return [*effects, Up(BridgeClose(connection, reason)), *self._forget(connection, now)]

    def _forget(self, connection: int, now: float) -> list[Effect]:
        gone = self.connections.pop(connection)
        key = gone.key()
        if key is not None and self.links.get(key) == connection:
            del self.links[key]
            self._grace.lost(key, now)
            if not self.linked(key[0]):
                self._dialer.lost(key[0], now, hasty=gone.session.answered)
        self._hung_up(gone.dialed, now)
        return self._announce_role()

    def _hung_up(self, dialed: tuple[str, Physical] | None, now: float) -> None:
        if dialed is not None:
            self._dialer.failed(*dialed, now)

    def linked(self, site: str) -> bool:
        """True when the relay of some lineage of the site is linked."""
        return any(key[0] == site for key in self.links)

    # -- what arrives --------------------------------------------------------------------------------------------------

    def received(self, connection: int, data: bytes, now: float) -> list[Effect]:
        """Bytes of a connection. One that was closed is not listened to any more (R6)."""
        found = self.connections.get(connection)
        if found is None:
            return [Dropped("bridge_late")]
        effects: list[Effect] = []
        try:
            for frame in found.session.receive(data, now):
                effects += self._handle(connection, found, frame, now)
                if connection not in self.connections:
                    return effects
        except ProtocolError as error:
            return [*effects, Dropped(error.reason), *self._close(connection, error.reason, now)]
        if self._caster.waiting_bytes > self.config.waiting_bytes_max:
            return [*effects, Dropped("bridge_overrun"), *self._close(connection, "overrun", now)]
        return effects

    def _handle(self, connection: int, link: Connection, frame: Header, now: float) -> list[Effect]:
        if isinstance(frame, Hello):
            return self._hello(connection, link, frame, now)
        if isinstance(frame, Bye):
            return [Up(BridgeClose(connection, f"peer: {frame.reason}")), *self._forget(connection, now)]
        peer = link.session.peer
        assert peer is not None
        if isinstance(frame, Ack):
            self._acks.collect((peer.site, peer.lineage), frame.vectors.get(self._local.site))
            return []
        if isinstance(frame, Unicast | UnicastReply | Routed):
            self.arrived.append((peer.site, frame))
            return []
        answer = self._admit(peer.site, frame)
        if answer is Admission.HOLE:
            link.session.report_hole()
        return [Dropped(answer.value)] if answer.value else []

    def _admit(self, site: str, frame: Header) -> Admission:
        if isinstance(frame, Data):
            return self._inflow.data(site, frame)
        if isinstance(frame, RemoteView):
            return self._inflow.view(site, frame)
        if isinstance(frame, RemoteGap):
            return self._inflow.gap(site, frame)
        assert isinstance(frame, RemoteBaseline)
        self._inflow.baseline(site, frame)
        return Admission.NEXT

    # -- HELLO ---------------------------------------------------------------------------------------------------------

    def _hello(self, connection: int, link: Connection, hello: Hello, now: float) -> list[Effect]:
        refusal = objection(link, hello, self.config.peers)
        if refusal:
            reason, sentence = refusal
            return [Dropped(f"hello_{reason}"), *self._close(connection, reason, now), *self._say(hello.site, sentence)]
        key = (hello.site, hello.lineage)
        epoch = self._known_epoch(key)
        if epoch is not None and hello.epoch < epoch:
            return [Dropped("hello_stale_epoch"), *self._close(connection, "stale_epoch", now)]
        effects: list[Effect] = []
        older = self.links.get(key)
        if older is not None:
            if not is_preferred(link, self.connections[older]):
                return [Dropped("hello_twin"), *self._close(connection, "twin", now)]
            effects += self._close(older, "superseded", now)
        self.links[key] = connection
        self._grace.linked(key)
        self._dialer.linked(hello.site)
        state = self._state
        link.session.accept(state.admitted_vector(*key), self.horizon.stable_vector(*key))
        if epoch is None or epoch < hello.epoch:
            self._caster.cast(LinkUp(hello.site, hello.lineage, hello.epoch))
        return [*effects, *self._announce_role()]

    def _say(self, site: str, sentence: str) -> list[Effect]:
        if sentence in self._said or len(self._said) >= _SENTENCES_MAX:
            return []
        self._said[sentence] = None
        return [Up(Misconfigured(site, sentence))]

    def _known_epoch(self, key: Key) -> ViewId | None:
        remote = self._state.remotes.get(key[0])
        lineage = None if remote is None else remote.lineages.get(key[1])
        epoch = None if lineage is None else lineage.epoch
        if key in self.links:
            peer = self.connections[self.links[key]].session.peer
            epoch = later(epoch, None if peer is None else peer.epoch)
        return epoch

    # -- the stream ----------------------------------------------------------------------------------------------------

    def admitted(self, entry: Admitted) -> None:
        """Something of another site was admitted here."""
        self._settle(self.horizon.admitted(entry))

    def stable(self, gseq: int) -> bool:
        """Every member has the stream up to this number; True when there is more to acknowledge."""
        settled = self.horizon.stable(gseq)
        self._settle(settled)
        return bool(settled)

    def _settle(self, settled: list[Admitted]) -> None:
        for (site, lineage), connection in self.links.items() if settled else ():
            origins = {each.origin: each.n for each in settled if each.site == site and each.origin is not None}
            views = [each.view for each in settled if each.site == site and each.lineage == lineage]
            if origins or views:
                self.connections[connection].session.acknowledge(SiteVector(origins, views[-1] if views else None))

    def refused(self, site: str) -> None:
        """Something that was cast was not admitted: the numbers here ran ahead of the stream."""
        self._inflow.reset(site)
        self._resync(site)

    def went_down(self, entry: SiteDown) -> None:
        """A lineage was taken out of the global view; if a link came up meanwhile, it is linked again and its view needed."""
        self._grace.settled(entry)
        self._resync(entry.site)
        key = (entry.site, entry.lineage)
        if entry.forget and key in self.links:
            peer = self.connections[self.links[key]].session.peer
            assert peer is not None
            self._caster.cast(LinkUp(*key, peer.epoch))

    def ended(self, site: str, lineages: list[ViewId], now: float) -> list[Effect]:
        """A merge view has ended these. Who still speaks for one has not got that view: linked anew, it is held for again."""
        links = [self.links[site, name] for name in lineages if (site, name) in self.links]
        return [effect for connection in links for effect in self._close(connection, "ended", now)]

    def _resync(self, site: str) -> None:
        for (linked, _), connection in self.links.items():
            if linked == site:
                self.connections[connection].session.report_hole()

    def send_unicast(self, site: str, member: Address, frame: Unicast | UnicastReply) -> str:
        """Put it on the link to the part of the site in which the member is; why not, or an empty string."""
        remote = self._state.remotes.get(site)
        parts = [] if remote is None else remote.lineages_of(member)
        links = [connection for (linked, _), connection in self.links.items() if linked == site]
        preferred = [self.links[site, name] for name in parts if (site, name) in self.links]
        for connection in (preferred or links)[:1]:
            return "" if self.connections[connection].session.send_unicast(frame) else "queue_full"
        return "no_link"

    # -- turns and time ------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> list[Effect]:
        """Everything that is due, then what may be sent: called once a turn and at deadlines."""
        if self.view is None:
            return []
        effects: list[Effect] = []
        for connection, link in list(self.connections.items()):
            reason = link.session.overdue(now)
            if reason is not None:
                effects += [Dropped(f"link_{reason}"), *self._close(connection, reason, now)]
        effects += [Up(Dial(site, address)) for site, address in self._dialer.due(now)]
        for entry in self._grace.due(self.links, now):
            self._caster.cast(entry)
        for acked in self._acks.take(tuple(sorted(self.config.peers))):
            self._caster.cast(acked)
        self._cast_trim(now)
        for connection, link in self.connections.items():
            session, key = link.session, link.key()
            if key is not None:
                session.resync(self._state.admitted_vector(*key), now)
            data = session.take(now)
            if data:
                effects.append(Up(BridgeSend(connection, data)))
        return effects

    def _cast_trim(self, now: float) -> None:
        position = self._state.buffer.excess(now)
        if position is not None and position > self._trimming:
            self._trimming = position
            self._caster.cast(Trim(position))

    def deadline(self) -> float | None:
        """When `pump` wants to be called."""
        if self.view is None:
            return None
        dues = [
            self._dialer.deadline(),
            self._grace.deadline(self.links),
            self._state.buffer.age_due(self._trimming),  # what a Trim is on its way for is seen to
            *[link.session.deadline() for link in self.connections.values()],
        ]
        return min([due for due in dues if due is not None], default=None)
