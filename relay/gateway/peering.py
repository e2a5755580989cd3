"""Peering: connections between this site's relay and those of other sites, from HELLO to BYE.

It decides which places to call (`dialer.py`), which HELLOs to accept (`fence.py`), how to handle a
frame, and when a connection ends. It closes an older link before it answers a newer HELLO of the
same lineage (R6, R9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relay.events import Duty, Listen, Role, StopListening
from relay.gateway.config import GatewayConfig
from relay.gateway.connections import Call, Close, ConnectionId, Ending, LinkEffect, Place
from relay.gateway.dialer import Dialer
from relay.gateway.fence import Fence
from relay.gateway.grace import Grace
from relay.gateway.injector import Injector
from relay.gateway.link_table import Connection, Key, LinkTable
from relay.gateway.receiver import LinkReceiver
from relay.gateway.watermarks import Watermarks
from relay.gateway.wire import Ack, Bye, ForOne, Hello, Routed
from relay.replica.entries import Acked, LinkUp, SiteDown, SiteSwitch, SiteVector
from relay.replica.remote_site import LINEAGES_MAX, Admission
from relay.replica.state import ReplicatedState
from relay.replica.vectors import later, raise_to
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.view import View, ViewId
from sitestack.stack.layer import Dropped, Local, Up


class Arrived(NamedTuple):
    """A unicast, an answer to one, or a frame about a state, received over a link."""

    frame: ForOne


class Piece(NamedTuple):
    """A piece of a route, received over the link to a site."""

    site: str
    piece: Routed


class Peering:
    """The relay's connections.

    Bounds: `connections_max` sessions, `LINEAGES_MAX` of a site, one per call and per route; `LinkConfig`.
    """

    def __init__(
        self,
        local: Local,
        config: GatewayConfig,
        places: Mapping[str, tuple[Place, ...]],
        state: ReplicatedState,
        watermarks: Watermarks,
        injector: Injector,
    ) -> None:
        self.view: View | None = None
        self.grace = Grace(state, config.grace_s, state.buffer.config.budget_age_s)
        window_bytes_max = config.window_bytes_max(state.buffer.config.budget_bytes)
        self.table = LinkTable(local, config.link, window_bytes_max, state, watermarks, self.grace.going_down)
        self._site = local.site
        self._connections_max = config.connections_max
        self._waiting_bytes_max = config.waiting_bytes_max
        self._injector = injector
        self._fence = Fence(places, state, self.table)
        self._receiver = LinkReceiver(local.site, state, injector, self.grace.going_down)
        self._dialer = Dialer(places, config.dial_s, config.dial_s_max, local.rng, state.switches.offline)
        self._acks = _Acknowledgements(state)
        self._role: Role | None = None

    @property
    def accepted(self) -> list[str | None]:
        """The site that the certificate of each accepted connection names."""
        connections = self.table.connections.items()
        return [each.certified for connection, each in connections if _is_accepted(connection, each.dialed)]

    def begin(self, view: View, now: float) -> list[LinkEffect]:
        old, self.view = self.view, view
        effects: list[LinkEffect] = []
        if old is None:
            self._dialer.start(now)
            self.grace.start(now)
            effects.append(Up(Listen()))
        elif old.lineage != view.lineage:
            # Another part of this site may continue the lineage that HELLO named.
            effects += self._close_all(Ending.LINEAGE, now)
        return [*effects, *self._announce_role()]

    def start_over(self, now: float) -> list[LinkEffect]:
        """Close all links after a merge of this site's parts."""
        effects = self._close_all(Ending.MERGED, now)
        self._receiver.clear()
        self._acks.clear()
        self.grace.start(now)
        return effects

    def resign(self, view: View, reason: Ending, now: float) -> list[LinkEffect]:
        """Stop relaying: send BYE on every connection and close it (R8). `view`: the one relayed in."""
        effects = self._close_all(reason, now)
        self._dialer.stop()
        self._receiver.clear()
        self._acks.clear()
        self._role = self.view = None
        return [*effects, Up(StopListening()), Up(Role(Duty.MEMBER, view.id, ()))]

    def _announce_role(self) -> list[LinkEffect]:
        assert self.view is not None
        sites = self.table.sites()
        role = Role(Duty.RELAY if sites else Duty.COORDINATOR, self.view.id, sites)
        if role == self._role:
            return []
        self._role = role
        return [Up(role)]

    def connected(
        self, connection: ConnectionId, dialed: tuple[str, Place] | None, certified: str | None, now: float
    ) -> list[LinkEffect]:
        """Send HELLO on a ready connection, called or accepted.

        `certified`: the site proven at its other end.
        """
        taken = self.accepted
        is_full = len(taken) >= self._connections_max or (certified is not None and taken.count(certified) >= LINEAGES_MAX)
        if self.view is None or (_is_accepted(connection, dialed) and is_full):
            if dialed is not None:
                self._dialer.failed(*dialed, now)
            return [Dropped("bridge_refused"), Close(connection, Ending.NOT_RELAY)]
        self.table.greet(connection, dialed, certified, self.view, now)
        return []

    def closed(self, connection: ConnectionId, now: float) -> list[LinkEffect]:
        return self._forget(connection, now) if connection in self.table.connections else []

    def change_places(self, gone: Sequence[str], now: float) -> list[LinkEffect]:
        """Adopt changed places of other sites; those in `gone` have none any more."""
        if self.view is None:
            return []
        self._dialer.change(now)
        return self._close_those_to(gone, Ending.REMOVED, now)

    def expect(self, site: str, now: float) -> None:
        if not self.table.linked(site):
            self._dialer.lost(site, now)

    def call_failed(self, site: str, place: Place, now: float) -> None:
        self._dialer.failed(site, place, now)

    def _close(self, connection: ConnectionId, reason: str, now: float) -> list[LinkEffect]:
        return [*self.table.farewell(connection, reason), *self._forget(connection, now)]

    def _close_all(self, reason: Ending, now: float) -> list[LinkEffect]:
        return [effect for connection in list(self.table.connections) for effect in self._close(connection, reason, now)]

    def _forget(self, connection: ConnectionId, now: float) -> list[LinkEffect]:
        gone, key = self.table.forget(connection)
        if key is not None:
            self.grace.away(key, now)
            self._receiver.forget(key)
            if not self.table.linked(key[0]):
                self._dialer.lost(key[0], now, hasty=gone.session.answered)
        if gone.dialed is not None:
            self._dialer.failed(*gone.dialed, now)
        return self._announce_role()

    def received(self, connection: ConnectionId, data: bytes, now: float) -> tuple[list[LinkEffect], list[Arrived | Piece]]:
        """RELAY's "Receive message M from TCP channel". Bytes of a connection closed here are dropped
        (R6).

        Return effects, and in order of arrival the unicasts and pieces of routes.
        """
        found = self.table.connections.get(connection)
        if found is None:
            return [Dropped("bridge_late")], []
        effects: list[LinkEffect] = []
        arrived: list[Arrived | Piece] = []
        waited_bytes = self._injector.waiting_bytes
        try:
            for frame in found.session.receive(data, now):
                if isinstance(frame, Routed):
                    arrived.append(Piece(_peer(found).site, frame))
                elif isinstance(frame, ForOne):
                    arrived.append(Arrived(frame))
                else:
                    effects += self._handle(connection, found, frame, now)
                if isinstance(frame, Hello):
                    waited_bytes = self._injector.waiting_bytes
                if connection not in self.table.connections:
                    return effects, arrived
        except ProtocolError as error:
            return [*effects, Dropped(error.reason), *self._close(connection, error.reason, now)], arrived
        if self._injector.waiting_bytes > max(self._waiting_bytes_max, waited_bytes):
            effects += [Dropped("bridge_overrun"), *self._close(connection, Ending.OVERRUN, now)]
        return effects, arrived

    def _handle(self, connection: ConnectionId, link: Connection, frame: Header, now: float) -> list[LinkEffect]:
        if isinstance(frame, Hello):
            return self._hello(connection, link, frame, now)
        if isinstance(frame, Bye):
            return [Close(connection, f"peer: {frame.reason}"), *self._forget(connection, now)]
        peer = _peer(link)
        if isinstance(frame, Ack):
            self._acks.collect((peer.site, peer.lineage), frame.vectors.get(self._site))
            return []
        answer = self._receiver.admit(peer.site, frame, peer.lineage)
        if answer is Admission.HOLE:
            link.session.has_hole = True
        return [] if answer is Admission.NEXT else [Dropped(answer.value)]

    def _hello(self, connection: ConnectionId, link: Connection, hello: Hello, now: float) -> list[LinkEffect]:
        refusal = self._fence.refusal(link, hello)
        if refusal is not None:
            reason, problem = refusal
            said = [] if problem is None else [Up(problem)]
            return [Dropped(f"hello_{reason}"), *self._close(connection, reason, now), *said]
        key = (hello.site, hello.lineage)
        is_news = self._fence.is_news(hello)
        older = self.table.links.get(key)
        effects = [] if older is None else self._close(older, Ending.SUPERSEDED, now)
        self.table.accept(connection, key)
        self.grace.linked(key)
        self._receiver.forget(key)
        self._dialer.linked(hello.site)
        if is_news:
            self._injector.cast(LinkUp(hello.site, hello.lineage, hello.epoch))
        return [*effects, *self._announce_role()]

    def refused(self, site: str) -> None:
        """Restart from the replicated state: a cast batch was not admitted."""
        self._receiver.reset(site)
        self.table.resync(site)

    def went_down(self, entry: SiteDown) -> None:
        """Follow up a hidden lineage. If its link has come up meanwhile, ask for its view again; a
        forgotten lineage also needs its epoch again.
        """
        self.grace.settled(entry)
        self.table.resync(entry.site)
        epoch = self.table.epoch((entry.site, entry.lineage))
        if entry.forget and epoch is not None:
            self._injector.cast(LinkUp(entry.site, entry.lineage, epoch))

    def shown(self, key: Key, now: float) -> None:
        if key not in self.table.links:
            self.grace.away(key, now)

    def ended(self, site: str, lineages: Sequence[ViewId], now: float) -> list[LinkEffect]:
        """Close the links of lineages ended by a merge view.

        A relay that still speaks for one reconnects, and entries are held for it again.
        """
        keys = [(site, name) for name in lineages]
        links = [self.table.links[key] for key in keys if key in self.table.links]
        return [effect for connection in links for effect in self._close(connection, Ending.ENDED, now)]

    def switched(self, entry: SiteSwitch, now: float) -> list[LinkEffect]:
        """Close the connections of a site taken offline and drop its entries; call one taken online."""
        if not entry.is_offline:
            self.expect(entry.site, now)
            return []
        self._receiver.reset(entry.site)
        return self._close_those_to([entry.site], Ending.OFFLINE, now)

    def _close_those_to(self, sites: Sequence[str], reason: Ending, now: float) -> list[LinkEffect]:
        found = [connection for connection, each in self.table.connections.items() if each.site in sites]
        return [effect for connection in found for effect in self._close(connection, reason, now)]

    def due(self, now: float) -> list[LinkEffect]:
        effects: list[LinkEffect] = []
        for connection, reason in self.table.overdue(now):
            effects += [Dropped(f"link_{reason}"), *self._close(connection, reason, now)]
        effects += [Call(site, place) for site, place in self._dialer.due(now)]
        for down in self.grace.due(self.table.links, now):
            self._injector.cast(down)
        for acked in self._acks.drain():
            self._injector.cast(acked)
        return effects

    def deadline(self) -> float | None:
        """Return the time (s) at which `due` or `LinkTable.fill` must be called, or None."""
        due = self.table.deadline()
        for each in (self._dialer.deadline(), self.grace.deadline(self.table.links)):
            if each is not None and (due is None or each < due):
                due = each
        return due


def _peer(link: Connection) -> Hello:
    assert link.session.peer is not None
    return link.session.peer


def _is_accepted(connection: ConnectionId, dialed: tuple[str, Place] | None) -> bool:
    """Return whether another relay made this TCP connection; `ROUTES_PER_SITE_MAX` bounds routes."""
    return dialed is None and isinstance(connection, int)


class _Acknowledgements:
    """This turn's ACKs of other sites. Bound: a vector per link."""

    def __init__(self, state: ReplicatedState) -> None:
        self._state = state
        self._collected: dict[Key, SiteVector] = {}

    def collect(self, key: Key, vector: SiteVector | None) -> None:
        """Raise the collected vector by an ACK for this site; None when the ACK has none."""
        if vector is not None:
            known = self._collected.get(key, SiteVector())
            raise_to(known.origins, vector.origins)
            self._collected[key] = SiteVector(known.origins, later(known.view, vector.view))

    def clear(self) -> None:
        """Forget vectors not yet cast: the first ACK of each new link repeats all stable numbers."""
        self._collected.clear()

    def drain(self) -> list[Acked]:
        entries: list[Acked] = []
        for (site, name), vector in self._collected.items():
            remote = self._state.remotes.get(site)
            known = None if remote is None else remote.lineages.get(name)
            acked = {} if known is None else known.acked
            origins = {origin: n for origin, n in vector.origins.items() if acked.get(origin, 0) < n}
            seen = None if known is None else known.acked_view
            view = vector.view if vector.view is not None and (seen is None or seen < vector.view) else None
            if origins or view is not None:
                entries.append(Acked(site, name, SiteVector(origins, view)))
        self._collected.clear()
        return entries
