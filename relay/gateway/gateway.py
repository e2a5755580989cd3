"""Gateway: the relay's side that faces the other sites. Every member has one; it is active while its member coordinates.

It decides whom to call, whom to believe (`fence.py`) and what to answer, and when a connection ends; the connections are
`link_table.py`. It reads the replicated state, puts what arrives into the site's stream through the `Injector`, and says what
to do as effects for the shell. An older link is closed before a newer HELLO of its lineage is answered (R6, R9).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from relay.events import Duty, Listen, Role, StopListening
from relay.gateway.acknowledgements import Acknowledgements
from relay.gateway.connections import Call, Close, ConnectionId, Ending, LinkEffect, Place, Via
from relay.gateway.dialer import Dialer
from relay.gateway.fence import Fence
from relay.gateway.grace import Grace
from relay.gateway.injector import Injector
from relay.gateway.link_table import Connection, Key, LinkTable
from relay.gateway.receiver import LinkReceiver
from relay.gateway.retention import Retention
from relay.gateway.session import LinkConfig
from relay.gateway.watermarks import Admitted, Watermarks
from relay.gateway.wire import Ack, Bye, Hello, RemoteUnicast, Routed
from relay.replica.entries import (
    HeldFor,
    LinkUp,
    Relayed,
    RemoteBaseline,
    RemoteGap,
    RemoteView,
    SiteDown,
    Trim,
    UnicastRefusal,
    UnicastReply,
)
from relay.replica.outcome import Outcome
from relay.replica.remote_site import Admission
from relay.replica.state import ReplicatedState
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Frame, Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Dropped, Local, Up


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The other sites. All members of a site have the same."""

    #: Addresses at which the relay of each neighbour may be found: those of all its members, or of a service before them.
    peers: dict[str, tuple[Physical, ...]] = field(default_factory=dict)
    link: LinkConfig = field(default_factory=LinkConfig)
    #: A site without a link keeps its members in the global view for this long; longer than a failover takes (G6).
    grace_s: float = 10.0
    #: First pause between two calls of an address; it doubles up to the maximum, with jitter.
    dial_s: float = 0.2
    dial_s_max: float = 5.0
    #: Connections at a time that others have made to this relay, those that have not said HELLO included. Not counted are this
    #: relay's own calls, one for each address, and routes (`ROUTES_MAX`): a flood of connections from outside stops neither.
    connections_max: int = 64
    #: Bytes from other sites that wait to be sequenced; a link that brings more is closed and replays later.
    waiting_bytes_max: int = 64 * 1024 * 1024


class Gateway:
    """This site's relay. Bounds: `connections_max` sessions and one for each call and route, each bounded by `LinkConfig`."""

    def __init__(
        self, local: Local, config: GatewayConfig, via: Mapping[str, str], state: ReplicatedState, injector: Injector
    ) -> None:
        """`via`: sites without a connection to this one, and the neighbour by way of which each is reached."""
        places: dict[str, tuple[Place, ...]] = {**config.peers, **{site: (Via(each),) for site, each in via.items()}}
        self.sites = tuple(sorted(places))
        self.config = config
        self.watermarks = Watermarks(state)
        self.view: View | None = None
        #: Unicasts, replies and pieces that have arrived, with the site they came from; the relay layer takes them.
        self.arrived: list[tuple[str, RemoteUnicast | UnicastReply | Routed]] = []
        self.retention = Retention(local.address, places, state)
        self._site = local.site
        self._state = state
        self._injector = injector
        self._links = LinkTable(local, config.link, state, self.watermarks)
        self._fence = Fence(places, state, self._links)
        self._receiver = LinkReceiver(local.site, state, injector)
        self._dialer = Dialer(places, config.dial_s, config.dial_s_max, local.rng)
        self._grace = Grace(state, config.grace_s, state.buffer.config.budget_age_s)
        self._acks = Acknowledgements(state)
        self._trimming = -1
        self._role: Role | None = None

    @property
    def active(self) -> bool:
        """True while this member relays."""
        return self.view is not None

    @property
    def connections(self) -> dict[ConnectionId, Connection]:
        """All of them, those that are no link yet included."""
        return self._links.connections

    @property
    def accepted(self) -> int:
        """How many connections others have made to this relay: those that count against `connections_max`."""
        return sum(_is_accepted(connection, each.dialed) for connection, each in self.connections.items())

    @property
    def links(self) -> dict[Key, ConnectionId]:
        """The connection that is the link to each lineage."""
        return self._links.links

    def linked(self, site: str) -> bool:
        """True when the relay of some lineage of the site is linked."""
        return bool(self._links.sessions(site))

    # -- role ----------------------------------------------------------------------------------------------------------

    def installed(self, view: View, now: float) -> list[LinkEffect]:
        """This member coordinates a view."""
        old, self.view = self.view, view
        self._links.acknowledge(self.watermarks.installed(len(view.members) == 1))
        self._trimming = -1
        effects: list[LinkEffect] = []
        if old is None:
            self._dialer.start(now)
            self._grace.start(now)
            self.retention.start_over()
            effects.append(Up(Listen()))
        elif old.lineage != view.lineage:
            # Links are keyed by lineage: the other part of a split site may continue the old one.
            effects += self._close_all(Ending.LINEAGE, now)
        return [*effects, *self._announce_role()]

    def start_over(self, now: float) -> list[LinkEffect]:
        """The parts of this site have become one: what it has is to be asked and answered anew, on every link."""
        effects = self._close_all(Ending.MERGED, now)
        self._receiver.clear()
        self._acks.clear()
        self._grace.start(now)
        self.retention.start_over()
        return effects

    def resign(self, reason: Ending, now: float) -> list[LinkEffect]:
        """This member relays no more: say farewell everywhere. The peers ask the next relay what it needs all the same (R8)."""
        if self.view is None:
            return []
        effects = self._close_all(reason, now)
        self._dialer.stop()
        self._receiver.clear()
        self._acks.clear()
        effects.append(Up(StopListening()))
        effects.append(Up(Role(Duty.MEMBER, self.view.id, ())))
        self._role = self.view = None
        return effects

    def _announce_role(self) -> list[LinkEffect]:
        assert self.view is not None
        sites = self._links.sites()
        role = Role(Duty.RELAY if sites else Duty.COORDINATOR, self.view.id, sites)
        if role == self._role:
            return []
        self._role = role
        return [Up(role)]

    # -- connections ---------------------------------------------------------------------------------------------------

    def connected(
        self, connection: ConnectionId, dialed: tuple[str, Place] | None, certified: str | None, now: float
    ) -> list[LinkEffect]:
        """A connection is ready, called or accepted, with the site that is proven to be at its other end: say HELLO at once."""
        too_many = _is_accepted(connection, dialed) and self.accepted >= self.config.connections_max
        if self.view is None or too_many:
            self._hung_up(dialed, now)
            return [Dropped("bridge_refused"), Close(connection, Ending.NOT_RELAY)]
        self._links.greet(connection, dialed, certified, self.view, now)
        return []

    def closed(self, connection: ConnectionId, now: float) -> list[LinkEffect]:
        """The connection has ended."""
        return self._forget(connection, now) if connection in self.connections else []

    def expect(self, site: str, now: float) -> None:
        """There is a way to a site again: call it soon."""
        if not self.linked(site):
            self._dialer.lost(site, now)

    def dial_failed(self, site: str, place: Place, now: float) -> list[LinkEffect]:
        """A call was not answered."""
        self._dialer.failed(site, place, now)
        return []

    def written(self, connection: ConnectionId) -> list[LinkEffect]:
        """The kernel has taken the last chunk."""
        if connection in self.connections:
            self.connections[connection].session.written()
        return []

    def _close(self, connection: ConnectionId, reason: str, now: float) -> list[LinkEffect]:
        return [*self._links.farewell(connection, reason), *self._forget(connection, now)]

    def _close_all(self, reason: Ending, now: float) -> list[LinkEffect]:
        return [effect for connection in list(self.connections) for effect in self._close(connection, reason, now)]

    def _forget(self, connection: ConnectionId, now: float) -> list[LinkEffect]:
        gone, key = self._links.forget(connection)
        if key is not None:
            self._grace.lost(key, now)
            if not self.linked(key[0]):
                self._dialer.lost(key[0], now, hasty=gone.session.answered)
        self._hung_up(gone.dialed, now)
        return self._announce_role()

    def _hung_up(self, dialed: tuple[str, Place] | None, now: float) -> None:
        if dialed is not None:
            self._dialer.failed(*dialed, now)

    # -- what arrives --------------------------------------------------------------------------------------------------

    def received(self, connection: ConnectionId, data: bytes, now: float) -> list[LinkEffect]:
        """Bytes of a connection. One that was closed is not listened to any more (R6)."""
        found = self.connections.get(connection)
        if found is None:
            return [Dropped("bridge_late")]
        effects: list[LinkEffect] = []
        try:
            for frame in found.session.receive(data, now):
                effects += self._handle(connection, found, frame, now)
                if connection not in self.connections:
                    return effects
        except ProtocolError as error:
            return [*effects, Dropped(error.reason), *self._close(connection, error.reason, now)]
        if self._injector.waiting_bytes > self.config.waiting_bytes_max:
            return [*effects, Dropped("bridge_overrun"), *self._close(connection, Ending.OVERRUN, now)]
        return effects

    def _handle(self, connection: ConnectionId, link: Connection, frame: Header, now: float) -> list[LinkEffect]:
        if isinstance(frame, Hello):
            return self._hello(connection, link, frame, now)
        if isinstance(frame, Bye):
            return [Close(connection, f"peer: {frame.reason}"), *self._forget(connection, now)]
        peer = link.session.peer
        assert peer is not None
        if isinstance(frame, Ack):
            self._acks.collect((peer.site, peer.lineage), frame.vectors.get(self._site))
            return []
        if isinstance(frame, RemoteUnicast | UnicastReply | Routed):
            self.arrived.append((peer.site, frame))
            return []
        answer = self._receiver.admit(peer.site, frame)
        if answer is Admission.HOLE:
            link.session.report_hole()
        return [] if answer is Admission.NEXT else [Dropped(answer.value)]

    # -- HELLO ---------------------------------------------------------------------------------------------------------

    def _hello(self, connection: ConnectionId, link: Connection, hello: Hello, now: float) -> list[LinkEffect]:
        refusal = self._fence.refusal(link, hello)
        if refusal is not None:
            reason, problem = refusal
            said = [] if problem is None else [Up(problem)]
            return [Dropped(f"hello_{reason}"), *self._close(connection, reason, now), *said]
        key = (hello.site, hello.lineage)
        is_news = self._fence.is_news(hello)
        older = self.links.get(key)
        effects = [] if older is None else self._close(older, Ending.SUPERSEDED, now)
        self._links.accept(connection, key)
        self._grace.linked(key)
        self._dialer.linked(hello.site)
        if is_news:
            self._injector.cast(LinkUp(hello.site, hello.lineage, hello.epoch))
        return [*effects, *self._announce_role()]

    # -- the stream ----------------------------------------------------------------------------------------------------

    def on(self, frame: Frame, entry: Header, outcome: Outcome, now: float) -> list[LinkEffect]:
        """An entry of this site's stream has been applied."""
        effects: list[LinkEffect] = [*(self.retention.compare() if isinstance(entry, HeldFor) else ())]
        if self.view is None:
            return effects
        for admitted in _admitted(frame, entry, outcome):
            self._links.acknowledge(self.watermarks.admitted(admitted))
        match entry:
            case Relayed() if outcome.admission is Admission.HOLE and frame.batch is not None:
                self._refused(frame.batch.site)
            case RemoteView(site, view) if outcome.admission is Admission.NEXT:
                self._shown((site, view.lineage), now)
                effects += self._ended(site, outcome.ended, now)
            case SiteDown():
                self._went_down(entry)
            case HeldFor() if outcome.position is not None:
                self.watermarks.appended(frame.stream, frame.seqno, outcome.position)
        return effects

    def stable(self, gseq: int) -> bool:
        """Every member has the stream up to this number; True when there is more to acknowledge."""
        settled = self.watermarks.stable(gseq)
        self._links.acknowledge(settled)
        return bool(settled)

    def _refused(self, site: str) -> None:
        """Something that was cast was not admitted: the numbers here ran ahead of the stream."""
        self._receiver.reset(site)
        self._resync(site)

    def _went_down(self, entry: SiteDown) -> None:
        """A lineage was taken out of the global view; if a link came up meanwhile, it is linked again and its view needed."""
        self._grace.settled(entry)
        self._resync(entry.site)
        epoch = self._links.epoch((entry.site, entry.lineage))
        if entry.forget and epoch is not None:
            self._injector.cast(LinkUp(entry.site, entry.lineage, epoch))

    def _shown(self, key: Key, now: float) -> None:
        """A view of a part of another site was admitted."""
        if key not in self.links:
            self._grace.shown(key, now)

    def _ended(self, site: str, lineages: Sequence[ViewId], now: float) -> list[LinkEffect]:
        """A merge view has ended these. Who still speaks for one has not got that view: linked anew, it is held for again."""
        links = [self.links[site, name] for name in lineages if (site, name) in self.links]
        return [effect for connection in links for effect in self._close(connection, Ending.ENDED, now)]

    def _resync(self, site: str) -> None:
        for session in self._links.sessions(site):
            session.report_hole()

    def send_unicast(self, site: str, member: Address, frame: RemoteUnicast | UnicastReply) -> UnicastRefusal | None:
        """Put it on the link to the part of the site in which the member is; why not, or None."""
        remote = self._state.remotes.get(site)
        session = self._links.session_to(site, [] if remote is None else remote.lineages_of(member))
        return UnicastRefusal.NO_LINK if session is None else session.send_unicast(frame)

    # -- turns and time ------------------------------------------------------------------------------------------------

    def pump(self, now: float) -> list[LinkEffect]:
        """Everything that is due, then what may be sent: called once a turn and at deadlines."""
        if self.view is None:
            return []
        effects: list[LinkEffect] = []
        for connection, reason in self._links.overdue(now):
            effects += [Dropped(f"link_{reason}"), *self._close(connection, reason, now)]
        effects += [Call(site, place) for site, place in self._dialer.due(now)]
        for entry in self._grace.due(self.links, now):
            self._injector.cast(entry)
        for acked in self._acks.take():
            self._injector.cast(acked)
        held_for = self.retention.due(now)
        if held_for is not None:
            self._injector.cast(held_for)
        self._cast_trim(now)
        return [*effects, *self._links.fill(now)]

    def _cast_trim(self, now: float) -> None:
        position = self._state.buffer.excess(now)
        if position is not None and position > self._trimming:
            self._trimming = position
            self._injector.cast(Trim(position))

    def deadline(self) -> float | None:
        """When `pump` wants to be called."""
        if self.view is None:
            return None
        dues = [
            self._dialer.deadline(),
            self._grace.deadline(self.links),
            self._state.buffer.age_due(self._trimming),  # what a Trim is on its way for is seen to
            self.retention.deadline(),
            self._links.deadline(),
        ]
        return min([due for due in dues if due is not None], default=None)


def _is_accepted(connection: ConnectionId, dialed: tuple[str, Place] | None) -> bool:
    """Whether another relay has made this connection; those at the other end of a route are counted there."""
    return dialed is None and isinstance(connection, int)


def _admitted(frame: Frame, entry: Header, outcome: Outcome) -> Iterator[Admitted]:
    """What of another site this entry has brought into the own one."""
    match entry:
        case Relayed() if outcome.admission in (Admission.NEXT, Admission.DELIVERED) and frame.batch is not None:
            batch = frame.batch
            yield Admitted(frame.seqno, batch.site, batch.origin, batch.first - 1, batch.last, None, None)
        case RemoteView(site, view) if outcome.admission is Admission.NEXT:
            yield Admitted(frame.seqno, site, None, 0, 0, view.id, view.lineage)
        case RemoteGap(site) | RemoteBaseline(site):
            for origin, before, n in outcome.numbers:
                yield Admitted(frame.seqno, site, origin, before, n, None, None)
