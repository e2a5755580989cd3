"""A stranger without a key at the TCP ports of a member can take one of a few places, for a short time."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest
import trio

from sitestack.model.address import Address, Physical
from sitestack.model.events import CheckMember, Event, Gone
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import tcp, watch
from sitestack.transport.interfaces import bind_pair
from sitestack.transport.watch import Watcher
from tests.harness.addresses import address
from tests.harness.sockets import until
from tests.sitestack.transport.test_tcp import arriving, place, transports

A, B, C = map(address, "ABC")
KEYS, OTHER = KeyRing.of(bytes(32)), KeyRing.of(bytes([1]) * 32)


class Member:
    """A watcher, with keys or without, its place, and its reports."""

    def __init__(self, address: Address, keys: KeyRing | None, nursery: trio.Nursery) -> None:
        self.udp, self.tcp = bind_pair("127.0.0.1", 0)
        self.place = Physical(*self.tcp.getsockname())
        self.heard: list[Event] = []
        proofs = None if keys is None else Proofs("NYC", keys)
        self.watcher = Watcher(address, "a member", self.tcp, self.heard.append, nursery, [self.place], proofs)

    async def watching(self, count: int = 1) -> None:
        await until(lambda: self.watcher.statistics().watching == count)

    async def hears(self, *events: Event) -> None:
        await until(lambda: len(self.heard) >= len(events))
        assert self.heard == list(events)


@asynccontextmanager
async def members(*of: tuple[Address, KeyRing | None]) -> AsyncIterator[list[Member]]:
    opened: list[Member] = []
    try:
        async with trio.open_nursery() as nursery:
            opened += [Member(address, keys, nursery) for address, keys in of]
            try:
                yield opened
            finally:
                nursery.cancel_scope.cancel()
    finally:  # no task accepts any more
        for each in opened:
            each.udp.close()
            each.tcp.close()


async def connected(place: Physical, count: int = 1) -> list[trio.SocketStream]:
    return [await trio.open_tcp_stream(*place) for _ in range(count)]


class TestWatching:
    """The connections by which members watch each other."""

    async def test_members_with_one_key_watch_each_other(self) -> None:
        async with members((A, KEYS), (B, KEYS)) as [a, b]:
            b.watcher.watch([(A, a.place)])
            await b.watching()
            assert a.watcher.levels()["pending"].now == 0

    @pytest.mark.parametrize("keys", [OTHER, None])
    async def test_members_without_a_common_key_do_not_watch_each_other(self, keys: KeyRing | None) -> None:
        async with members((A, KEYS), (B, keys)) as [a, b]:
            b.watcher.watch([(A, a.place)])
            a.watcher.watch([(B, b.place)])
            await until(lambda: a.watcher.statistics().attempts > 1 and b.watcher.statistics().attempts > 1)
            assert (a.watcher.statistics().watching, b.watcher.statistics().watching) == (0, 0)
            assert a.heard == b.heard == []

    async def test_a_stranger_is_disconnected_after_a_timeout_and_receives_no_uuid(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watch, "ANSWER_TIMEOUT_S", 0.2)
        async with members((A, KEYS)) as [a]:
            [stranger] = await connected(a.place)
            heard = b""
            with trio.fail_after(5):
                while data := await stranger.receive_some():
                    heard += data
            await stranger.aclose()
            assert heard.find(A) == -1
            assert (len(heard), a.watcher.statistics().unproven) == (len(watch.SEALED_MAGIC) + NONCE_BYTES, 1)

    async def test_many_strangers_do_not_keep_a_member_out(self) -> None:
        async with members((A, KEYS), (B, KEYS)) as [a, b]:
            strangers = await connected(a.place, 2 * watch.PENDING_MAX)
            b.watcher.watch([(A, a.place)])
            await b.watching()
            assert a.watcher.levels()["pending"].now <= watch.PENDING_MAX
            for each in strangers:
                await each.aclose()

    async def test_a_proof_for_one_connection_is_refused_on_another(self) -> None:
        proofs = Proofs("NYC", KEYS)
        async with members((A, KEYS)) as [a]:
            [one, other] = await connected(a.place, 2)
            nonce = (await one.receive_some(100))[-NONCE_BYTES:]
            await other.receive_some(100)
            shown = bytes(NONCE_BYTES) + proofs.make("watch", nonce, bytes(NONCE_BYTES), str(a.place).encode())
            await other.send_all(shown)
            assert await other.receive_some(100) == b""
            await one.send_all(shown)
            assert (await one.receive_some(100)).startswith(A)
            await one.aclose()
            await other.aclose()

    async def test_a_connection_forwarded_to_another_member_reports_no_death(self) -> None:
        """A machine in between forwards B's bytes for A to C, and C's answers back."""
        async with members((C, KEYS), (B, KEYS)) as [c, b]:
            listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]

            async def lead(stream: trio.SocketStream) -> None:
                [further] = await connected(c.place)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(copy, stream, further)
                    nursery.start_soon(copy, further, stream)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, lead, [listener])
                b.watcher.watch([(A, Physical(*listener.socket.getsockname()))])
                await until(lambda: b.watcher.statistics().attempts > 2)
                assert b.heard == []
                b.watcher.watch([(A, c.place)])
                await until(lambda: b.heard == [Gone(A)])  # C itself reports that it is there now
                nursery.cancel_scope.cancel()

    async def test_a_refusal_only_makes_members_look_since_anybody_can_send_one(self) -> None:
        async with members((B, KEYS)) as [b]:
            async with trio.open_nursery() as nursery:
                a = Member(A, KEYS, nursery)
                b.watcher.watch([(A, a.place)])
                await b.watching()
                nursery.cancel_scope.cancel()
            a.tcp.close()
            await until(lambda: len(b.heard) > 0)
            assert b.heard == [CheckMember(A, refused=True)]
            a.udp.close()


async def copy(source: trio.SocketStream, to: trio.SocketStream) -> None:
    with suppress(trio.ClosedResourceError, trio.BrokenResourceError):
        async with source, to:
            async for data in source:
                await to.send_all(data)


class TestTcpTransport:
    """The connections that carry datagrams where there is no UDP."""

    async def test_many_strangers_do_not_keep_a_member_out(self) -> None:
        with transports(2, keys=KEYS) as [a, b], ExitStack() as strangers:
            for _ in range(3 * tcp.PENDING_MAX):
                strangers.enter_context(socket.create_connection(place(a)))
                a.receive()
            b.send([(place(a), b"hello"), (place(a), b"again")])
            assert [data for data, _ in await arriving(a, b, count=2)] == [b"hello", b"again"]
            a.send([(place(b), b"answer")])
            assert [data for data, _ in await arriving(b, a, count=1)] == [b"answer"]
            assert a.levels()["pending"].now <= tcp.PENDING_MAX
            assert a.statistics().unproven >= 2 * tcp.PENDING_MAX - 1

    @pytest.mark.parametrize("keys", [KEYS, None])
    async def test_a_silent_connection_is_closed_after_the_greeting_timeout(
        self, keys: KeyRing | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tcp, "GREETING_TIMEOUT_S", 0.1)
        with transports(1, keys=keys) as [a]:
            with socket.create_connection(place(a)):
                await until(lambda: a.statistics().unproven > 0, a.receive)
            assert a.levels()["connections"].now == 0

    async def test_a_connection_without_a_challenge_is_made_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The network failed right after the connection was made: neither end sends anything that could fail."""
        monkeypatch.setattr(tcp, "CONNECT_TIMEOUT_S", 0.1)
        monkeypatch.setattr(tcp, "GREETING_TIMEOUT_S", 0.1)
        with transports(1, keys=KEYS) as [a], socket.create_server(("127.0.0.1", 0)) as silent:
            hello = (Physical(*silent.getsockname()), b"hello")
            await until(lambda: a.statistics().connections_made >= 3, lambda: a.send([hello]), a.receive)

    async def test_a_greeting_without_a_sound_proof_is_refused(self) -> None:
        frames = [
            tcp.MAGIC + b"\x01\x00127.0.0.1",
            tcp.MAGIC + b"\x01\x00127.0.0.1" + bytes(PROOF_BYTES),
            b"",
            bytes(256),
            bytes(257),
        ]
        with transports(1, keys=KEYS) as [a]:
            for count, frame in enumerate(frames, 1):
                with socket.create_connection(place(a)) as stranger, trio.fail_after(5):
                    stranger.sendall(tcp._frame(frame) + tcp._frame(b"a datagram"))
                    while a.statistics().unproven + a.statistics().broken < count:
                        assert a.receive() == []
                        await trio.sleep(0.001)

    async def test_members_that_differ_in_keys_receive_no_datagrams_from_each_other(self) -> None:
        with transports(1, keys=KEYS) as [a], transports(1, keys=OTHER) as [b], transports(1) as [c]:
            for each in (b, c):
                each.send([(place(a), b"hello")])
                a.send([(place(each), b"hello")])
            for _ in range(100):
                assert a.receive() == b.receive() == []
                assert all(data.startswith(tcp.SEALED_MAGIC) for data, _ in c.receive()), "it is told a nonce, and no datagram"
                await trio.sleep(0.002)
