"""The gossip router without sockets: it receives frames and returns effects.

A connection must prove a key of its site; its frames then stay in that site's cluster. At most
PENDING_MAX connections are unproven, each for GREETING_TIMEOUT_S; a further one evicts the oldest.
A registration lasts as long as its connection; a silent one is closed after SILENT_S (LA-16).
Nothing is stored on disk: members register again after a restart. A connection serves either a
member or a relay that calls or is called (`switchboard.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from relay.router.switchboard import Cut, Effect, Say, Switchboard
from sitestack.model.address import UUID_BYTES, Address
from sitestack.model.errors import ProtocolError
from sitestack.model.level import Level
from sitestack.seal.proofs import Proofs
from sitestack.transport.places import Places
from sitestack.wire import routing
from sitestack.wire.routing import Entry, framed

#: Maximum number of proven connections. Every served site has an equal, separate share.
CLIENTS_MAX = 1_024
#: Maximum unproven connections, in total and per host, and the time (s) for a proof.
PENDING_MAX, PENDING_HOST_MAX = 64, 32
GREETING_TIMEOUT_S = 2.0
#: Silence (s) after which a member is removed, before others suspect it.
SILENT_S = 2.5
#: Minimum time (s) between two answered queries of a member: an answer grows with the cluster.
QUERY_INTERVAL_S = 0.25
_SEND_START = 1 + UUID_BYTES


@dataclass(frozen=True, slots=True)
class Registration:
    """A member, its connection, and its registration as sent to the other members."""

    client: int
    entry: Entry
    said: bytes


class Registry:
    """Clusters and their members. A registration lasts as long as its connection (LA-16)."""

    def __init__(self) -> None:
        #: Cluster -> uuid -> registration; at most one registration for each connection.
        self._clusters: dict[str, dict[Address, Registration]] = {}

    def put(self, cluster: str, new: Registration) -> Registration | None:
        members = self._clusters.setdefault(cluster, {})
        before = members.get(new.entry.address)
        members[new.entry.address] = new
        return before

    def remove(self, cluster: str, member: Address, client: int) -> bool:
        """Remove a member; return False if it has since registered on another connection."""
        members = self._clusters.get(cluster, {})
        if member not in members or members[member].client != client:
            return False
        del members[member]
        if not members:
            del self._clusters[cluster]
        return True

    def get(self, cluster: str, member: Address) -> Registration | None:
        return self._clusters.get(cluster, {}).get(member)

    def others(self, cluster: str, member: Address) -> list[Registration]:
        return [each for address, each in self._clusters.get(cluster, {}).items() if address != member]

    def clusters(self) -> Iterator[tuple[str, list[Registration]]]:
        for cluster, members in self._clusters.items():
            yield cluster, list(members.values())

    def __len__(self) -> int:
        return sum(map(len, self._clusters.values()))


@dataclass(slots=True)
class _Client:
    number: int
    nonce: bytes
    heard_at: float
    #: The proven cluster; empty before the proof.
    cluster: str = ""
    proofs: Proofs | None = None
    member: Address | None = None
    queried_at: float | None = None


class Router:
    """Routes frames between registered members. The shell assigns connection numbers."""

    def __init__(self, sites: Mapping[str, Proofs | None]) -> None:
        """`sites` maps each served cluster to its proofs, or to None for an insecure site."""
        self.registry = Registry()
        self.switchboard = Switchboard(sites)
        #: Refused and lost frames and connections, by reason.
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
        #: Frames accepted from a waiting listener. Callers and spliced connections send no frames.
        self._waiting_handlers: dict[bytes, Callable[[_Client, bytes, float], list[Effect]]] = {
            routing.ACCEPT: self._accept,
            routing.PING: self._ping,
        }

    def open(self, client: int, nonce: bytes, now: float, host: str = "") -> list[Effect]:
        effects = [effect for oldest in self._pending.enter(client, host) for effect in self._cut(oldest, "pending", now)]
        self._clients[client] = _Client(client, nonce, now)
        return [*effects, Say([client], framed(routing.challenge(nonce)))]

    def close(self, client: int, now: float) -> list[Effect]:
        """Remove a closed connection, and notify the other members if it had a member."""
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

    def expire(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        for client in [each for each in self._pending if now >= self._clients[each].heard_at + GREETING_TIMEOUT_S]:
            effects += self._cut(client, "unproven", now)
        for client in [number for number, each in self._clients.items() if now >= each.heard_at + SILENT_S]:
            if not self.switchboard.is_spliced(client):
                effects += self._cut(client, "silent", now)
        return effects + self._switched(self.switchboard.expire(now), now)

    def bytes_max(self, client: int) -> int:
        """Return the size limit (bytes) of frames from this connection."""
        return routing.GREETING_BYTES_MAX if client in self._pending else routing.FRAME_BYTES_MAX

    def note_bytes(self, number: int, now: float) -> None:
        """Keep a proven connection whose frame arrives slowly."""
        if number in self._clients and number not in self._pending:
            self._clients[number].heard_at = now

    def receive_frame(self, number: int, frame: bytes, now: float) -> list[Effect]:
        """Handle a frame. A frame of an already closed connection is dropped."""
        client = self._clients.get(number)
        if client is None:
            return []
        try:
            if number in self._pending:
                return self._greet(client, frame, now)
            self.note_bytes(number, now)
            handlers = self._waiting_handlers if number in self.switchboard else self._handlers
            handle = handlers.get(frame[:1])
            if handle is None:
                raise ProtocolError("frame_kind")
            return handle(client, frame, now)
        except ProtocolError as error:
            return self._cut(number, error.reason, now)

    def fail(self, client: int, reason: str, now: float) -> list[Effect]:
        """Close a connection that sent a malformed frame or does not read."""
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
        """Register a member. Its newer connection replaces an older one, which may be dead."""
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
            return []  # it may have accepted already, and reads further bytes as the caller's
        return [Say([client.number], framed(routing.PONG))]

    def _cast(self, client: _Client, frame: bytes, _now: float) -> list[Effect]:
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
        """Return the effects of the switchboard, with the consequences of each `Cut`."""
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
        return {
            "clients": Level.of(len(self._clients) - len(self._pending), CLIENTS_MAX, "members of the sites that are served"),
            "pending": self._pending.level(),
            "registered": Level.of(len(self.registry), CLIENTS_MAX, "members of the sites that are served"),
            **self.switchboard.levels(),
        }
