"""Datagrams over TCP connections on the loopback interface."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import trio

from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import SiteConfig, TransportConfig, find_problems
from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.model.address import Physical
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import tcp
from sitestack.transport.shared import CHANNELS_MAX
from sitestack.transport.tcp import GREETING_BYTES_MAX, MAGIC, SEALED_MAGIC, SHARED_MAGIC, Greeting, TcpStatistics, TcpTransport
from tests.harness.channels import take, together, wait_for_view
from tests.harness.messages import present
from tests.harness.sockets import until
from tests.sitestack.transport.conftest import no_descriptors

CONFIG = TransportConfig(kind="tcp", interface="127.0.0.1")
GROUP = Physical("239.192.0.1", 7600)


@contextmanager
def transports(count: int, config: TransportConfig = CONFIG, keys: KeyRing | None = None) -> Iterator[list[TcpTransport]]:
    proofs = None if keys is None else Proofs("NYC", keys)
    opened = [TcpTransport(config, GROUP, proofs) for _ in range(count)]
    try:
        yield opened
    finally:
        for each in opened:
            each.close()


async def arriving(transport: TcpTransport, *others: TcpTransport, count: int) -> list[tuple[bytes, Physical]]:
    """Return the arriving datagrams, while the others have their turns too."""
    taken: list[tuple[bytes, Physical]] = []
    await until(lambda: len(taken) >= count, lambda: taken.extend(transport.receive()), *[each.receive for each in others])
    return taken


def place(transport: TcpTransport) -> Physical:
    return transport.physical()[0]


async def test_datagrams_arrive_whole_in_order_and_carry_their_reply_address() -> None:
    with transports(2) as (a, b):
        sent = [bytes([n % 256]) * size for n, size in enumerate([0, 1, 60_000, 5, 65_000] * 20)]
        a.send([(place(b), data) for data in sent])
        assert await arriving(b, a, count=100) == [(data, place(a)) for data in sent]
        b.send([(place(a), b"answer")])
        assert await arriving(a, b, count=1) == [(b"answer", place(b))]
        assert (a.levels()["connections"].now, b.levels()["connections"].now, b.statistics().connections_made) == (1, 1, 0)


async def test_a_transport_sleeps_until_something_arrives() -> None:
    with transports(2) as (a, b):
        with trio.move_on_after(0.05) as scope:
            await a.wait()
        assert scope.cancelled_caught
        b.send([(place(a), b"x")])
        taken: list[tuple[bytes, Physical]] = []
        with trio.fail_after(5):
            await b.wait()  # until it is connected
            b.receive()
            while not taken:
                await a.wait()
                taken += a.receive()
        assert taken == [(b"x", place(b))]


@pytest.mark.conforms("LA-8")
async def test_the_external_address_is_advertised_and_replied_to() -> None:
    with transports(1) as (b,):
        outside = replace(CONFIG, external_host="198.51.100.7", external_port=7000)
        with transports(1, outside) as (a,):
            assert place(a) == Physical("198.51.100.7", 7000)
            a.send([(place(b), b"question")])
            assert await arriving(b, a, count=1) == [(b"question", place(a))]
            b.send([(place(a), b"answer")])
            assert await arriving(a, b, count=1) == [(b"answer", place(b))]
            assert b.statistics().connections_made == 0, "there is a connection with who is told to be there"


@pytest.mark.conforms("LA-25", "LA-29")
async def test_an_idle_connection_is_closed_at_both_ends_and_made_again_without_anybody_noticing() -> None:
    with transports(2, replace(CONFIG, connection_idle_s_max=0.2)) as (a, b):
        for text in (b"first", b"second"):
            a.send([(place(b), text)])
            assert await arriving(b, a, count=1) == [(text, place(a))]
            for _ in range(5):
                await trio.sleep(0.1)
                a.send([(place(b), text)])
                await arriving(b, a, count=1)
                b.send([(place(a), text)])
                await arriving(a, b, count=1)
            assert a.levels()["connections"].now == b.levels()["connections"].now == 1
            await until(lambda: a.levels()["connections"].now == b.levels()["connections"].now == 0, a.receive, b.receive)
        assert a.statistics().connections_made == 2
        assert a.statistics().reaped + b.statistics().reaped >= 2
        assert a.statistics().unsent_datagrams == b.statistics().unsent_datagrams == 0


async def test_a_connection_over_which_nothing_comes_back_is_made_again() -> None:
    """A stalled intermediary accepts all bytes. A connection that only sends stays if the peer speaks on another."""
    with transports(2, replace(CONFIG, connection_idle_s_max=0.2)) as (a, b), socket.create_server(("127.0.0.1", 0)) as stalled:
        b.send([(place(a), b"x")])
        a.send([(place(b), b"x")])
        there = Physical(*stalled.getsockname())

        def talk() -> None:
            a.send([(place(b), b"x"), (there, b"x")])
            b.send([(place(a), b"x")])

        await until(lambda: a.statistics().connections_made == 4, talk, a.receive, b.receive)
        assert len([each for each in a._connections.values() if each.peer == place(b)]) == 2


async def test_a_connection_whose_bytes_vanish_is_closed_before_members_suspect_each_other() -> None:
    """A firewall may have forgotten it, and lets a new one through."""
    detection = FailureDetectionConfig()
    suspected_s = detection.timeout_s + detection.verify_timeout_s - detection.heartbeat_interval_s
    with transports(2) as (a, b):
        a.send([(place(b), b"x")])
        await arriving(b, a, count=1)
        for sock in (*a._connections, *b._connections):
            closed_s = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) / 1_000
            assert 0 < detection.heartbeat_interval_s + closed_s < suspected_s


async def test_two_that_connect_to_each_other_at_once_understand_each_other() -> None:
    with transports(2) as (a, b):
        a.send([(place(b), b"from a")])
        b.send([(place(a), b"from b")])
        at_a: list[tuple[bytes, Physical]] = []
        at_b: list[tuple[bytes, Physical]] = []
        turns = (lambda: at_a.extend(a.receive()), lambda: at_b.extend(b.receive()))
        await until(lambda: bool(at_a and at_b), *turns)
        a.send([(place(b), b"more")])
        await until(lambda: len(at_b) == 2, *turns)
        assert at_a == [(b"from b", place(b))]
        assert at_b == [(b"from a", place(a)), (b"more", place(a))]


async def test_the_queue_for_a_stalled_reader_is_bounded_and_delays_no_other_peer() -> None:
    with transports(3, replace(CONFIG, send_queue_bytes_max=200_000)) as (a, b, c):
        a.send([(place(b), b"x"), (place(c), b"x")])
        await arriving(b, a, count=1)
        for _ in range(400):
            a.send([(place(b), bytes(60_000))])
        queued = a.levels()["queued_bytes"]
        assert a.statistics().unsent_datagrams > 0
        assert present(queued.high) <= 200_000 == queued.bound
        a.send([(place(c), b"y")])
        assert [data for data, _ in await arriving(c, a, count=2)] == [b"x", b"y"]
        await arriving(b, a, count=400 - a.statistics().unsent_datagrams)
        a.send([(place(b), b"again")])
        assert await arriving(b, a, count=1) == [(b"again", place(a))]


async def test_one_that_is_not_there_costs_a_pause_and_can_come_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "PAUSE_S", 0.1)
    with transports(2) as (a, b):
        b.close()
        a.send([(place(b), b"lost")])
        await until(lambda: a.levels()["connections"].now == 0, a.receive)
        a.send([(place(b), b"too soon")])
        assert (a.statistics().connections_made, a.statistics().unsent_datagrams) == (1, 1)
        again = TcpTransport(replace(CONFIG, port=place(b).port), GROUP)
        try:
            await trio.sleep(0.15)
            a.send([(place(again), b"there")])
            assert await arriving(again, a, count=1) == [(b"there", place(a))]
        finally:
            again.close()


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x04\x00\x00\x00SST\x02", b"\x08\x00\x00\x00SST\x01\x01\x00zz", b"\x00\x00\x00\x00"],
    ids=["another protocol", "another version", "no address", "nothing"],
)
async def test_a_peer_that_does_not_speak_the_protocol_is_disconnected(garbage: bytes) -> None:
    with transports(1) as (a,), socket.create_connection(place(a)) as stranger:
        await until(lambda: a.levels()["connections"].now == 1, a.receive)
        stranger.sendall(garbage)
        await until(lambda: a.levels()["connections"].now == 0, a.receive)
        assert a.statistics().received_datagrams == 0


async def test_the_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "CONNECTIONS_MAX", 1)
    with transports(3) as (a, b, c):
        b.send([(place(a), b"x")])
        await arriving(a, b, count=1)
        c.send([(place(a), b"x")])
        await until(lambda: c.levels()["connections"].now == 0, c.receive, a.receive)
        a.send([(place(c), b"x")])
        assert (a.levels()["connections"].now, a.statistics().unsent_datagrams) == (1, 1)


async def test_without_descriptors_unsent_datagrams_are_counted_and_a_later_send_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp, "PAUSE_S", 0.0)
    with transports(2) as (a, b):
        with no_descriptors():
            a.send([(place(b), b"lost")])
        assert a.statistics().unsent_datagrams == 1
        a.send([(place(b), b"found")])
        assert await arriving(b, a, count=1) == [(b"found", place(a))]


async def test_without_descriptors_a_pending_connection_is_accepted_later_without_wakeups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp, "CONNECT_TIMEOUT_S", 0.05)
    with transports(1) as [transport], socket.create_connection(place(transport)):
        with no_descriptors():
            await transport.wait()
            transport.receive()
            with trio.move_on_after(0.04) as scope:
                await transport.wait()
            assert scope.cancelled_caught
            assert transport.statistics().connections_taken == 0
        await until(lambda: transport.statistics().connections_taken == 1, transport.receive)


async def test_a_name_is_not_looked_up_and_there_is_no_multicast() -> None:
    with transports(1) as (a,):
        a.send([(Physical("localhost", 1), b"x"), (None, b"x")])
        assert (a.statistics().unsent_datagrams, a.levels()["connections"].now) == (2, 0)


def test_closing_gives_back_all_descriptors() -> None:
    before = set(os.listdir("/proc/self/fd"))
    with transports(2):
        pass
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_site_over_tcp_needs_initial_hosts() -> None:
    [problem] = find_problems(SiteConfig("NYC", transport=CONFIG))
    assert problem.startswith("discovery.initial_hosts: without multicast")


@pytest.mark.conforms("LA-13", "LA-29")
async def test_a_site_over_tcp_forms_delivers_and_survives_its_coordinator() -> None:
    with transports(1) as (probe,):
        port = place(probe).port
    discovery = DiscoveryConfig(initial_hosts=(Physical("127.0.0.1", port),), join_wait_s=0.3)
    first = SiteConfig("NYC", transport=replace(CONFIG, port=port), discovery=discovery)
    other = replace(first, transport=CONFIG)
    with trio.fail_after(30):
        openings = [open_channel(config, name=name) for config, name in ((first, "A"), (other, "B"), (other, "C"))]
        async with together(*openings) as [a, b, c]:
            for n in range(500):
                await b.send(b"%d" % n)
                await c.send(b"%d" % n)
            await c.send(bytes(200_000))
            taken = [await take(channel, 1_001) for channel in (a, b, c)]
            assert taken[0] == taken[1] == taken[2]
            before = tcp_of(b)
            await a.leave()
            await wait_for_view(b, 2)
            await c.send(b"on")
            assert [message.payload for message in await take(b, 1)] == [b"on"]
            numbers = tcp_of(b)
            assert numbers.received_datagrams > before.received_datagrams > 0
            made = (numbers.connections_made, numbers.connections_taken, numbers.reaped, numbers.broken)
            assert made == (before.connections_made, before.connections_taken, 0, before.broken), "a view closes none"


def tcp_of(channel: Channel) -> TcpStatistics:
    numbers = channel.statistics().transport
    assert isinstance(numbers, TcpStatistics)
    return numbers


PLACE = Physical("255.255.255.255", 65_535)
NONCE = bytes(range(NONCE_BYTES))


def with_clusters(*clusters: str) -> Greeting:
    greeting = Greeting(PLACE, None)
    for cluster in clusters:
        greeting.add(Proofs(cluster, KeyRing.of(cluster.encode().ljust(32))))
    return greeting


def let_in(caller: Greeting, called: Greeting) -> bool:
    return called.admit(caller.proven_hello(SEALED_MAGIC + NONCE), NONCE) == PLACE


@pytest.mark.parametrize(
    ("caller", "called", "expected"),
    [
        ("A", "A", True),
        ("A", "B", False),
        ("ABC", "C", True),
        ("ABC", "A", True),
        ("C", "ABC", True),
        ("ABC", "CDE", True),
        ("AB", "CD", False),
        ("AB", "", False),
        ("", "AB", False),
    ],
)
def test_one_cluster_in_common_is_enough_and_none_is_not(caller: str, called: str, expected: bool) -> None:
    other = with_clusters(*called)
    other.is_proved = True
    assert let_in(with_clusters(*caller), other) is expected


def test_a_shared_transport_with_one_cluster_greets_like_an_unshared_one() -> None:
    proofs = Proofs("A", KeyRing.of(b"A".ljust(32)))
    alone, shared = Greeting(PLACE, proofs), with_clusters("A")
    challenge = SEALED_MAGIC + NONCE
    assert alone.proven_hello(challenge) == shared.proven_hello(challenge)
    assert shared.proven_hello(challenge).startswith(MAGIC)
    assert let_in(with_clusters("A", "B"), alone)


def test_a_cluster_that_was_closed_is_not_proved_any_more_and_an_empty_transport_is_not_open() -> None:
    proofs = Proofs("A", KeyRing.of(bytes(32)))
    caller, called = Greeting(PLACE, proofs), Greeting(PLACE, None)
    called.add(proofs)
    assert let_in(caller, called)
    called.remove(proofs)
    assert not let_in(caller, called)
    assert called.admit(caller.hello(), NONCE) is None


def test_the_greeting_of_as_many_clusters_as_may_be_is_let_in_and_no_edited_one_is() -> None:
    clusters = [chr(ord("A") + n) for n in range(CHANNELS_MAX)]
    caller, called = with_clusters(*clusters), with_clusters(clusters[-1])
    hello = caller.proven_hello(SEALED_MAGIC + NONCE)
    assert len(hello) <= GREETING_BYTES_MAX
    assert called.admit(hello, NONCE) == PLACE
    assert called.admit(hello, bytes(NONCE_BYTES)) is None, "it was made for another connection"
    body = len(hello) - CHANNELS_MAX * PROOF_BYTES
    for at in [*range(body), *range(len(hello) - PROOF_BYTES, len(hello))]:
        edited = bytearray(hello)
        edited[at] ^= 1
        assert called.admit(bytes(edited), NONCE) is None
    for size in range(len(hello)):
        assert called.admit(hello[:size], NONCE) is None
    assert called.admit(SHARED_MAGIC + bytes(GREETING_BYTES_MAX), NONCE) is None
