"""The gossip router without its sockets: connections and frames go in, frames for connections come out.

Nothing of a connection is parsed before it has proved a key of the site that it names, and what it registers and sends stays in
that site's cluster. A connection without a proof is one of PENDING_MAX, for GREETING_TIMEOUT_S; the oldest gives way. A member
is registered for as long as its connection lasts; a silent one is closed after SILENT_S (LA-16). The router keeps nothing on a
disk: after its restart the members connect and register again. A connection is a member's, or one on which a relay is called
or calls (`switchboard.py`), and never both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf

from relay.router.effects import Cut, Effect, Say
from relay.router.switchboard import Switchboard
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.errors import ProtocolError
from sitestack.model.level import Level
from sitestack.seal.proofs import Proofs
from sitestack.transport.places import Places
from sitestack.wire import routing
from sitestack.wire.routing import Entry, framed

#: Connections that have proved a key. Each site that is served has the same share, and no site takes that of another.
CLIENTS_MAX = 1_024
#: Connections without a proof, of all and of one host, which may have many members; and the seconds for a proof.
PENDING_MAX, PENDING_HOST_MAX = 64, 32
GREETING_TIMEOUT_S = 2.0
#: Seconds of silence after which a member is gone: twenty times the interval at which members say that they are there.
SILENT_S = 10.0
#: Least time between two answered queries of one member: an answer is as long as the cluster is large.
QUERY_INTERVAL_S = 0.25
_SEND_START = 1 + UUID_BYTES


@dataclass(frozen=True, slots=True)
class Registration:
    """One member, the connection by which it is reached, and what it has said, as others are told of it."""

    client: int
    entry: Entry
    said: bytes


class Registry:
    """Clusters and their members. A member is in it for as long as its connection lasts (LA-16)."""

    def __init__(self) -> None:
        #: Cluster -> uuid -> registration. As many as there are connections at most.
        self._clusters: dict[str, dict[Address, Registration]] = {}

    def put(self, cluster: str, new: Registration) -> Registration | None:
        """Take in a registration; returns the one of the same member that it replaces."""
        members = self._clusters.setdefault(cluster, {})
        before = members.get(new.entry.address)
        members[new.entry.address] = new
        return before

    def remove(self, cluster: str, member: Address, client: int) -> bool:
        """Forget a member. False when it has registered again since, on another connection."""
        members = self._clusters.get(cluster, {})
        if member not in members or members[member].client != client:
            return False
        del members[member]
        if not members:
            del self._clusters[cluster]
        return True

    def get(self, cluster: str, member: Address) -> Registration | None:
        """The registration of one member."""
        return self._clusters.get(cluster, {}).get(member)

    def others(self, cluster: str, member: Address) -> list[Registration]:
        """All members of a cluster but this one, in the order in which they came."""
        return [each for address, each in self._clusters.get(cluster, {}).items() if address != member]

    def clusters(self) -> Iterator[tuple[str, list[Registration]]]:
        """All clusters with their members."""
        for cluster, members in self._clusters.items():
            yield cluster, list(members.values())

    def __len__(self) -> int:
        return sum(map(len, self._clusters.values()))


@dataclass(slots=True)
class _Client:
    """One connection."""

    number: int
    #: What the router has drawn for it.
    nonce: bytes
    heard_at: float
    #: The cluster to which it has proved to belong; empty before that.
    cluster: str = ""
    proofs: Proofs | None = None
    #: Who it has registered; None before that.
    member: Address | None = None
    queried_at: float | None = None


class Router:
    """Connections, registrations and the way of each frame. Connections are numbers, which the shell gives out."""

    def __init__(self, sites: Mapping[str, Proofs | None]) -> None:
        """`sites`: the clusters that are served, with what their members prove; None where they prove nothing."""
        self.registry = Registry()
        self.switchboard = Switchboard(sites)
        #: What was refused or lost, by reason; the reasons are those of the source code.
        self.refused: Counter[str] = Counter()
        self.casts = self.sends = self.queries = self.registered = 0
        self._sites = sites
        self._clients: dict[int, _Client] = {}
        self._pending = Places[int](PENDING_MAX, PENDING_HOST_MAX)
        self._handlers: dict[bytes, Callable[[_Client, bytes, float], list[Effect]]] = {
            routing.REGISTER: self._register,
            routing.QUERY: self._query,
            routing.PING: self._ping,
            routing.CAST: self._cast,
            routing.SEND: self._send,
            routing.LISTEN: self._listen,
            routing.CALL: self._call,
        }
        #: What is heard from one that waits to be called. One that calls says nothing more, and nobody says frames in a splice.
        self._waiting_handlers: dict[bytes, Callable[[_Client, bytes, float], list[Effect]]] = {
            routing.ACCEPT: self._accept,
            routing.PING: self._ping,
        }

    # -- connections -----------------------------------------------------------------------------------------------

    def open(self, client: int, nonce: bytes, now: float, host: str = "") -> list[Effect]:
        """Add an accepted connection from this host. `nonce`: a fresh one."""
        effects = [effect for oldest in self._pending.enter(client, host) for effect in self._cut(oldest, "pending", now)]
        self._clients[client] = _Client(client, nonce, now)
        return [*effects, Say([client], framed(routing.challenge(nonce)))]

    def close(self, client: int, now: float) -> list[Effect]:
        """A connection is gone, and with it whoever has registered on it: the others are told."""
        self._pending.leave(client)
        gone = self._clients.pop(client, None)
        if client in self.switchboard:
            return self._switched(self.switchboard.close(client, now), now)
        if gone is None or gone.member is None or not self.registry.remove(gone.cluster, gone.member, client):
            return []
        return self._tell_others(gone.cluster, gone.member, routing.GONE + gone.member)

    def _cut(self, client: int, reason: str, now: float) -> list[Effect]:
        self.refused[reason] += 1
        return [Cut(client, reason), *self.close(client, now)]

    def deadline(self) -> float | None:
        """When somebody may have been silent for too long; None without connections."""
        pending = [self._clients[each].heard_at + GREETING_TIMEOUT_S for each in self._pending]
        silent = [each.heard_at + SILENT_S for each in self._clients.values() if not self.switchboard.is_spliced(each.number)]
        switched = self.switchboard.deadline()
        return min([*silent, *pending, *([] if switched == inf else [switched])], default=None)

    def expire(self, now: float) -> list[Effect]:
        """Cut who proves nothing, and who is silent."""
        effects: list[Effect] = []
        for client in [each for each in self._pending if now >= self._clients[each].heard_at + GREETING_TIMEOUT_S]:
            effects += self._cut(client, "unproven", now)
        for client in [number for number, each in self._clients.items() if now >= each.heard_at + SILENT_S]:
            if not self.switchboard.is_spliced(client):
                effects += self._cut(client, "silent", now)
        return effects + self._switched(self.switchboard.expire(now), now)

    # -- frames ----------------------------------------------------------------------------------------------------

    def bytes_max(self, client: int) -> int:
        """The largest frame that this connection may send now."""
        return routing.GREETING_BYTES_MAX if client in self._pending else routing.FRAME_BYTES_MAX

    def receive_frame(self, number: int, frame: bytes, now: float) -> list[Effect]:
        """A frame of a connection. One that has been cut meanwhile is not listened to."""
        client = self._clients.get(number)
        if client is None:
            return []
        try:
            if number in self._pending:
                return self._greet(client, frame, now)
            client.heard_at = now
            handlers = self._waiting_handlers if number in self.switchboard else self._handlers
            handle = handlers.get(frame[:1])
            if handle is None:
                raise ProtocolError("frame_kind")
            return handle(client, frame, now)
        except ProtocolError as error:
            return self._cut(number, error.reason, now)

    def fail(self, client: int, reason: str, now: float) -> list[Effect]:
        """What a connection sends is no frame, or it does not take what it is sent."""
        return self._cut(client, reason, now) if client in self._clients else []

    def _greet(self, client: _Client, frame: bytes, now: float) -> list[Effect]:
        hello = routing.read_hello(frame)
        if hello.cluster not in self._sites:
            raise ProtocolError("other_site")
        proofs = self._sites[hello.cluster]
        if not hello.is_sound(proofs, client.nonce):
            raise ProtocolError("unproven")
        if sum(each.cluster == hello.cluster for each in self._clients.values()) >= CLIENTS_MAX // len(self._sites):
            raise ProtocolError("too_many")
        self._pending.leave(client.number)
        client.cluster, client.proofs, client.heard_at = hello.cluster, proofs, now
        return [Say([client.number], framed(routing.welcome(proofs, client.nonce, hello.nonce)))]

    def _register(self, client: _Client, frame: bytes, _now: float) -> list[Effect]:
        """Take in a registration; one on a newer connection replaces the older one, whose end has not been noticed yet."""
        said = frame[1:]
        entry = routing.parse_entry(said, client.proofs)
        member = entry.address
        if client.member not in (None, member):
            raise ProtocolError("two_registrations")
        client.member = member
        self.registered += 1
        before = self.registry.put(client.cluster, Registration(client.number, entry, said))
        effects: list[Effect] = []
        if before is not None and before.client != client.number:
            self._clients.pop(before.client, None)
            self.refused["replaced"] += 1
            effects.append(Cut(before.client, "replaced"))
        if before is None or before.said != said or before.client != client.number:
            effects += self._tell_others(client.cluster, member, routing.PRESENT + said)
        return effects

    def _query(self, client: _Client, _frame: bytes, now: float) -> list[Effect]:
        if client.queried_at is not None and now < client.queried_at + QUERY_INTERVAL_S:
            self.refused["query"] += 1
            return []
        client.queried_at = now
        self.queries += 1
        others = self.registry.others(client.cluster, client.member or Address(bytes(UUID_BYTES)))
        answer = [framed(routing.PRESENT, each.said) for each in others]
        return [Say([client.number], b"".join((*answer, framed(routing.listed(len(others))))))]

    def _ping(self, client: _Client, _frame: bytes, _now: float) -> list[Effect]:
        if self.switchboard.is_called(client.number):
            return []  # it may have accepted meanwhile, and takes what follows for the caller's
        return [Say([client.number], framed(routing.PONG))]

    def _cast(self, client: _Client, frame: bytes, _now: float) -> list[Effect]:
        """Copy a datagram to all others of the cluster."""
        member = self._registered(client)
        self.casts += 1
        others = [each.client for each in self.registry.others(client.cluster, member)]
        return [Say(others, framed(routing.DATA, member, memoryview(frame)[1:]), is_datagram=True)]

    def _send(self, client: _Client, frame: bytes, _now: float) -> list[Effect]:
        member = self._registered(client)
        if len(frame) < _SEND_START:
            raise ProtocolError("frame_kind")
        self.sends += 1
        to = self.registry.get(client.cluster, Address(frame[1:_SEND_START]))
        if to is None:
            self.refused["nobody"] += 1
            return []
        return [Say([to.client], framed(routing.DATA, member, memoryview(frame)[_SEND_START:]), is_datagram=True)]

    def _listen(self, client: _Client, _frame: bytes, now: float) -> list[Effect]:
        self._no_member(client)
        return self._switched(self.switchboard.listen(client.number, client.cluster, now), now)

    def _call(self, client: _Client, frame: bytes, now: float) -> list[Effect]:
        self._no_member(client)
        called = frame[1:].decode("utf-8", "replace")
        return self._switched(self.switchboard.call(client.number, client.cluster, called, now), now)

    def _accept(self, client: _Client, _frame: bytes, now: float) -> list[Effect]:
        return self._switched(self.switchboard.accept(client.number, now), now)

    def _switched(self, effects: list[Effect], now: float) -> list[Effect]:
        """What the switchboard wants, with what follows when it has a connection cut."""
        done: list[Effect] = []
        for effect in effects:
            done += self._cut(effect.client, effect.reason, now) if isinstance(effect, Cut) else [effect]
        return done

    @staticmethod
    def _no_member(client: _Client) -> None:
        if client.member is not None:
            raise ProtocolError("frame_kind")

    def _registered(self, client: _Client) -> Address:
        if client.member is None:
            raise ProtocolError("unregistered")
        return client.member

    def _tell_others(self, cluster: str, member: Address, notice: bytes) -> list[Effect]:
        others = [each.client for each in self.registry.others(cluster, member)]
        return [Say(others, framed(notice))] if others else []

    def levels(self) -> dict[str, Level]:
        """Connections, and those without a proof."""
        return {
            "clients": Level.of(len(self._clients) - len(self._pending), CLIENTS_MAX, "members of the sites that are served"),
            "pending": self._pending.level(),
            "registered": Level.of(len(self.registry), CLIENTS_MAX, "members of the sites that are served"),
            **self.switchboard.levels(),
        }
