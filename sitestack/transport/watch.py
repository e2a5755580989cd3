"""Watching: TCP connections that exist only to see them close (FD_SOCK in JGroups).

Every member listens at the TCP port with the number of its UDP port, sends its UUID on each
connection, and keeps it open:

    B connects to A      A -> B   magic, UUID of A
    A is killed          its kernel closes the connection
    B connects again     refused, or a process with another UUID responds: `Gone(A)`
                         A responds (a middlebox closed the connection): B continues to watch

Nothing else proves a death: no response, an invalid one, a broken route, a paused process. The
heartbeats decide then. Nor does a refusal where A has never responded, since a firewall may refuse,
or anything after such a silence, since A may have moved; A is checked by other means
(`CheckMember`).

With the keys of a site both ends prove that they have one before either identifies itself:

    A -> B   magic, nonce a
    B -> A   nonce b, proof over both and the address that B connected to, so that no other listener passes for A's
    A -> B   UUID of A, proof over all that

A stranger's connection occupies one of PENDING_MAX places, for ANSWER_TIMEOUT_S or until a newer
one evicts it. A refusal proves nothing then, since any process can send one.

Where several members share one listener (`WatchDesk`), B names its target. With keys its proof
does; without:

    A -> B   the shared magic
    B -> A   UUID of A
    A -> B   magic, UUID of A; or another UUID, if A has left

Later bytes from a watcher close its connection unread. Without keys the UUID in a response is
trusted like one in a datagram.
"""

from __future__ import annotations

import random
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial

import trio

from sitestack.model.address import UUID_BYTES, Address, Physical
from sitestack.model.events import CheckMember, Event, Gone
from sitestack.model.host import is_address
from sitestack.model.level import Level
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport.accepting import accept_bounded, hold_place, peer_host
from sitestack.transport.interfaces import family_of
from sitestack.transport.places import Places

#: Begins an answer; the last byte is the version.
MAGIC = b"SSW\x01"
SEALED_MAGIC = b"SSW\x02"
#: Begins an exchange in which B names its target.
SHARED_MAGIC = b"SSW\x03"
#: Maximum connections without a proof, in all and per host. Many members may share a host.
PENDING_MAX, PENDING_HOST_MAX = 64, 32
#: Maximum watchers of this member. Further ones are closed without an answer, and rely on
#: heartbeats.
WATCHERS_MAX = 256
ANSWER_TIMEOUT_S = 2.0
#: Pauses before the next attempt (s), varied by half.
PAUSE_S = 0.005
PAUSE_S_MAX = 5.0
#: Seconds after which a connection counts as good: reconnect at once.
HELD_S = 1.0
#: Seconds of silence before, and between, the kernel's probes of the other end.
KEEPALIVE_S = 30
#: A member and its address.
Target = tuple[Address, Physical]
Report = Callable[[Event], None]


class WatchOutcome(Enum):
    #: The member responded, and later the connection closed.
    CLOSED = auto()
    #: Another process of this project responded.
    OTHER = auto()
    REFUSED = auto()
    UNKNOWN = auto()


@dataclass(slots=True)
class WatchStatistics:
    watching: int = 0
    targets: int = 0
    #: Closed because there were WATCHERS_MAX already.
    refused: int = 0
    #: Closed without a valid proof, or evicted.
    unproven: int = 0
    attempts: int = 0
    gone: int = 0


class Watcher:
    """Watches members and accepts watchers. All its tasks run in the given nursery."""

    def __init__(
        self,
        me: Address,
        owner: str,
        listener: socket.socket | WatchDesk,
        report: Report,
        nursery: trio.Nursery,
        places: Sequence[Physical] = (),
        proofs: Proofs | None = None,
    ) -> None:
        """Name the tasks after `owner`. The opener of the listener closes it; `places` are its addresses."""
        self.me = me
        self.proofs = proofs
        self._places = places
        self._answer = MAGIC + me
        self._owner = owner
        self._report = report
        self._nursery = nursery
        self._targets: dict[Target, trio.CancelScope] = {}
        self._watchers = 0
        self._seen = WatchStatistics()
        #: Connections without a proof: the desk's, if there is one.
        self._pending = make_places() if isinstance(listener, socket.socket) else listener.pending
        if isinstance(listener, socket.socket):
            nursery.start_soon(self._accept, trio.socket.from_stdlib_socket(listener), name=f"watchers of {owner}")
        else:
            nursery.start_soon(self._be_found, listener, name=f"watchers of {owner}")

    def watch(self, targets: Iterable[Target]) -> None:
        """Watch exactly these targets from now on; none once the nursery is cancelled."""
        if self._nursery.cancel_scope.cancel_called:
            return  # a closed one accepts no tasks
        wanted = dict.fromkeys([each for each in targets if is_address(each[1].host)])
        for target in [each for each in self._targets if each not in wanted]:
            self._targets.pop(target).cancel()
        for target in wanted:
            if target not in self._targets:
                scope = self._targets[target] = trio.CancelScope()
                self._nursery.start_soon(self._watch, *target, scope, name=f"watch of {target[0]} by {self._owner}")

    def statistics(self) -> WatchStatistics:
        return replace(self._seen, targets=len(self._targets), unproven=self._pending.unproven)

    def levels(self) -> dict[str, Level]:
        why = "other members hold a connection each, to see when this one is gone"
        return {"watchers": Level.of(self._watchers, WATCHERS_MAX, why), "pending": self._pending.level()}

    async def _watch(self, member: Address, place: Physical, scope: trio.CancelScope) -> None:
        seen = asked = silent = False
        pause_s = PAUSE_S
        with scope:
            while True:
                began = trio.current_time()
                outcome = await self._connect(member, place)
                seen = seen or outcome is WatchOutcome.CLOSED
                proven = outcome is WatchOutcome.REFUSED and seen and self.proofs is None
                if (outcome is WatchOutcome.OTHER or proven) and not silent:
                    self._seen.gone += 1
                    self._report(Gone(member))
                    return
                if outcome is WatchOutcome.CLOSED:
                    asked = silent = False
                elif outcome is WatchOutcome.UNKNOWN:
                    silent = True
                elif not asked:
                    asked = True
                    self._report(CheckMember(member, seen))
                if outcome is WatchOutcome.CLOSED and trio.current_time() - began >= HELD_S:
                    pause_s = PAUSE_S
                    continue
                await trio.sleep(pause_s * random.uniform(0.5, 1.5))
                pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _connect(self, member: Address, place: Physical) -> WatchOutcome:
        self._seen.attempts += 1
        try:
            sock = trio.socket.socket(family_of(place.host), socket.SOCK_STREAM)
        except OSError:
            return WatchOutcome.UNKNOWN  # no descriptors are left
        with sock:
            outcome = await self._ask(sock, member, place)
            if outcome is WatchOutcome.CLOSED:
                self._seen.watching += 1
                try:
                    await _wait_closed(sock)
                finally:
                    self._seen.watching -= 1
            return outcome

    async def _ask(self, sock: trio.socket.SocketType, member: Address, place: Physical) -> WatchOutcome:
        """Return who responds. CLOSED: the member; its connection is still open."""
        try:
            with trio.fail_after(ANSWER_TIMEOUT_S):
                await sock.connect(place)
                who = await (
                    self._ask_plainly(sock, member) if self.proofs is None else self._exchange(sock, place, self.proofs)
                )
        except ConnectionRefusedError:
            return WatchOutcome.REFUSED
        except (OSError, trio.TooSlowError):
            return WatchOutcome.UNKNOWN
        if not who:
            return WatchOutcome.UNKNOWN
        return WatchOutcome.CLOSED if who == member else WatchOutcome.OTHER

    async def _ask_plainly(self, sock: trio.socket.SocketType, member: Address) -> bytes:
        """Return the UUID that the other end states; empty for an invalid response."""
        magic = await receive_exactly(sock, len(MAGIC))
        if magic == SHARED_MAGIC:
            await sock.send(member)
            magic = await receive_exactly(sock, len(MAGIC))
        answer = await receive_exactly(sock, UUID_BYTES) if magic == MAGIC else b""
        return answer if len(answer) == UUID_BYTES else b""

    async def _exchange(self, sock: trio.socket.SocketType, place: Physical, proofs: Proofs) -> bytes:
        """Return the UUID proven to be that of a member at this address; empty without a proof."""
        challenge = await receive_exactly(sock, len(SEALED_MAGIC) + NONCE_BYTES)
        if len(challenge) < len(SEALED_MAGIC) + NONCE_BYTES or not challenge.startswith(SEALED_MAGIC):
            return b""
        theirs, mine, where = challenge[-NONCE_BYTES:], secrets.token_bytes(NONCE_BYTES), str(place).encode()
        await sock.send(mine + proofs.make("watch", theirs, mine, where))
        answer = await receive_exactly(sock, UUID_BYTES + PROOF_BYTES)
        who, proof = answer[:UUID_BYTES], answer[UUID_BYTES:]
        return who if proofs.are_sound(proof, "watched", theirs, mine, where, who) else b""

    async def _be_found(self, desk: WatchDesk) -> None:
        """Accept watchers from a shared listener for as long as this watcher has tasks."""
        with desk.watched(self):
            await trio.sleep_forever()

    async def _accept(self, sock: trio.socket.SocketType) -> None:
        listener = trio.SocketListener(sock)
        bound = WATCHERS_MAX + 2 * PENDING_MAX
        await accept_bounded(listener, self._identify, self._nursery, name=f"watcher of {self._owner}", connections_max=bound)

    async def _identify(self, stream: trio.SocketStream) -> None:
        answer = self._answer
        with stream.socket, suppress(OSError):
            if self.proofs is not None:
                answer = self.answer_to(*await demand_proof(stream, self._pending))
            await self._hold(stream.socket, answer)

    def adopt(self, sock: trio.socket.SocketType, answer: bytes) -> None:
        """Answer a watcher of this member from a shared listener, and keep the connection."""
        self._nursery.start_soon(self._hold, sock, answer, name=f"watcher of {self._owner}")

    async def _hold(self, sock: trio.socket.SocketType, answer: bytes) -> None:
        with sock, suppress(OSError):
            if not answer:
                self._pending.unproven += 1
            elif self._watchers == WATCHERS_MAX:
                self._seen.refused += 1
            else:
                self._watchers += 1
                try:
                    await sock.send(answer)  # the kernel accepts the first bytes of a connection
                    await _wait_closed(sock)
                finally:
                    self._watchers -= 1

    def answer_to(self, mine: bytes, shown: bytes) -> bytes:
        """Return the answer to a valid proof over this nonce; else empty."""
        return b"" if self.proofs is None else answer_as(self.me, self.proofs, self._places, mine, shown)


def make_places() -> Places[trio.CancelScope]:
    return Places(PENDING_MAX, PENDING_HOST_MAX)


async def demand_proof(stream: trio.SocketStream, pending: Places[trio.CancelScope]) -> tuple[bytes, bytes]:
    """Send a nonce; return it with the other end's response, empty after the timeout. Raises OSError."""
    mine, shown = secrets.token_bytes(NONCE_BYTES), b""
    with hold_place(pending, peer_host(stream), ANSWER_TIMEOUT_S):
        await stream.socket.send(SEALED_MAGIC + mine)
        shown = await receive_exactly(stream.socket, NONCE_BYTES + PROOF_BYTES)
    return mine, shown


def answer_as(me: Address, proofs: Proofs, places: Iterable[Physical], mine: bytes, shown: bytes) -> bytes:
    """Return the answer of `me` to a proof for one of these addresses; empty for an invalid one."""
    theirs, proof = shown[:NONCE_BYTES], shown[NONCE_BYTES:]
    for where in [str(place).encode() for place in places]:
        if proofs.are_sound(proof, "watch", mine, theirs, where):
            return me + proofs.make("watched", mine, theirs, where, me)
    return b""


async def receive_exactly(sock: trio.socket.SocketType, size: int) -> bytes:
    """Return this number of bytes, or fewer if the other end closes the connection."""
    received = b""
    while len(received) < size:
        data = await sock.recv(size - len(received))
        if not data:
            break
        received += data
    return received


async def _wait_closed(sock: trio.socket.SocketType) -> None:
    """Wait until the other end closes the connection, or sends an unexpected byte."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_S)
        await sock.recv(1)


#: Maximum clusters of departed members that are answered for; the oldest is evicted.
LEFT_MAX = 64

#: The watcher of the intended member, with the answer; None for no member, whose answer may be
#: empty.
_Found = tuple[Watcher | None, bytes]
_Ask = Callable[[trio.SocketStream], Awaitable[_Found]]


class WatchDesk:
    """The listener of a shared transport.

    It asks each watcher for its target, and passes the connection to that member's `Watcher`. For a
    departed member the desk answers with a UUID that no member has: the port of the living process
    refuses no connection.
    """

    def __init__(self, listener: socket.socket, owner: str, places: Sequence[Physical]) -> None:
        """`places`: the addresses of the listener, which its opener closes."""
        self.pending = make_places()
        self._listener = listener
        self._owner = owner
        self._places = places
        self._watchers: dict[Address, Watcher] = {}
        self._left: dict[str, Proofs] = {}
        self._nobody = Address(secrets.token_bytes(UUID_BYTES))

    @contextmanager
    def watched(self, watcher: Watcher) -> Iterator[None]:
        """Route connections for this watcher's member to it, inside the block."""
        self._watchers[watcher.me] = watcher
        if watcher.proofs is not None:
            self._left.pop(watcher.proofs.cluster, None)
        try:
            yield
        finally:
            del self._watchers[watcher.me]
            if watcher.proofs is not None:
                if len(self._left) == LEFT_MAX:
                    del self._left[next(iter(self._left))]
                self._left[watcher.proofs.cluster] = watcher.proofs

    async def run(self, secured: bool) -> None:
        listener = trio.SocketListener(trio.socket.from_stdlib_socket(self._listener))
        serve = partial(self._serve, self._ask_for_proof if secured else self._ask_plainly)
        bound = 2 * PENDING_MAX
        async with trio.open_nursery() as nursery:
            await accept_bounded(listener, serve, nursery, name=f"watcher of {self._owner}", connections_max=bound)

    async def _serve(self, ask: _Ask, stream: trio.SocketStream) -> None:
        """Ask for the target, and pass the connection to its watcher, or answer for no member."""
        found: Watcher | None = None
        try:
            answer = b""
            with suppress(OSError):
                found, answer = await ask(stream)
                if found is None and answer:
                    await stream.socket.send(answer)
        finally:
            if found is None:
                stream.socket.close()
        if found is not None:
            found.adopt(stream.socket, answer)
        elif not answer:
            self.pending.unproven += 1

    async def _ask_plainly(self, stream: trio.SocketStream) -> _Found:
        asked = b""
        with hold_place(self.pending, peer_host(stream), ANSWER_TIMEOUT_S):
            await stream.socket.send(SHARED_MAGIC)
            asked = await receive_exactly(stream.socket, UUID_BYTES)
        if len(asked) < UUID_BYTES:
            return None, b""
        found = self._watchers.get(Address(asked))
        return found, MAGIC + (self._nobody if found is None else found.me)

    async def _ask_for_proof(self, stream: trio.SocketStream) -> _Found:
        """Find the target's cluster by the proof: each cluster has its own keys, and the proof covers the name."""
        mine, shown = await demand_proof(stream, self.pending)
        for watcher in self._watchers.values():
            if answer := watcher.answer_to(mine, shown):
                return watcher, answer
        for proofs in self._left.values():
            if answer := answer_as(self._nobody, proofs, self._places, mine, shown):
                return None, answer
        return None, b""
