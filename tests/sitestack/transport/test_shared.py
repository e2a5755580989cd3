"""A shared transport, without channels: receivers of datagrams, and drops without a receiver."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from sitestack.channel.open import open_transport
from sitestack.config import SiteConfig, TransportConfig, local
from sitestack.model.address import Physical
from sitestack.model.errors import ChannelClosed, ConfigurationError
from sitestack.seal import envelope
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.proofs import NONCE_BYTES, PROOF_BYTES, Proofs
from sitestack.transport import shared, watch
from sitestack.transport.memory import QUEUED_DATAGRAMS_MAX, MemoryNetwork, MemoryTransport
from sitestack.transport.sealed import SealedTransport
from sitestack.transport.shared import SharedTransport, TransportPart
from sitestack.transport.tcp import SEALED_MAGIC, Greeting, TcpTransport
from sitestack.transport.udp import UdpTransport
from sitestack.transport.watch import Watcher
from sitestack.wire.codec import Codec
from sitestack.wire.slices import DIGEST_BYTES, Slice
from tests.harness.addresses import address
from tests.harness.messages import present
from tests.harness.sockets import until

A = address("A")
SITE = local("NYC")


def site(name: str) -> SiteConfig:
    return replace(SITE, site=name)


def datagram(cluster: str, data: bytes = b"x") -> bytes:
    """A plain datagram of a cluster."""
    return Codec(cluster, {}).encode_slice(Slice(A, bytes(DIGEST_BYTES), 0, 2, data))


class Counting(MemoryTransport):
    """Counts how often it was looked at."""

    looked = 0

    def receive(self) -> list[tuple[bytes, Physical]]:
        self.looked += 1
        return super().receive()


@asynccontextmanager
async def reading(transport: SharedTransport) -> AsyncIterator[SharedTransport]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.run)
        yield transport
        nursery.cancel_scope.cancel()
    transport.close()


async def test_each_cluster_receives_its_own_datagrams_and_unclaimed_ones_are_counted(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    sender = network.open()
    async with reading(SharedTransport(SITE, network.open())) as transport:
        one, two = transport.open(site("one"), None), transport.open(site("two"), None)
        [place] = one.physical()
        sent = [datagram(name, b"%d" % n) for n in range(50) for name in ("one", "two", "three")]
        sender.send([(place, data) for data in [*sent, b"", b"garbage"]])
        await one.wait()
        await two.wait()
        assert [data for data, _ in one.receive()] == sent[::3]
        assert [data for data, _ in two.receive()] == sent[1::3]
        assert one.receive() == two.receive() == []
        assert transport.statistics().unclaimed_datagrams == 52
        two.close()
        sender.send([(place, sent[1]), (place, sent[0])])
        await one.wait()
        assert [data for data, _ in one.receive()] == [sent[0]]
        assert transport.statistics().unclaimed_datagrams == 53


async def test_a_channel_that_reads_nothing_loses_and_the_others_do_not(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    sender = network.open()
    size = len(datagram("slow")) + shared.OVERHEAD_BYTES
    small = replace(SITE, transport=replace(SITE.transport, receive_buffer_bytes=10 * size, receive_datagrams_max=4))
    async with reading(SharedTransport(small, network.open())) as transport:
        slow = transport.open(replace(small, site="slow"), None)
        quick = transport.open(replace(small, site="quick"), None)
        heard = 0
        for _ in range(30):
            sender.send([(slow.physical()[0], datagram(name)) for name in ("slow", "quick")])
            await quick.wait()
            heard += len(quick.receive())
        assert heard == 30
        level = slow.levels()["arrived_bytes"]
        assert (level.now, level.high, level.bound) == (10 * size, 10 * size, 10 * size)
        assert slow.statistics().overrun_datagrams == 20
        taken = []
        while slow.levels()["arrived_bytes"].now:
            with trio.fail_after(1):
                await slow.wait()
            taken.append(len(slow.receive()))
        assert taken == [4, 4, 2], "no turn is longer than with sockets of its own"


async def test_a_flood_for_those_that_do_not_wait_is_looked_at_in_portions(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    sender = network.open()
    carrier = Counting(network, Physical("memory", 99))
    network._members[carrier.address] = carrier
    async with reading(SharedTransport(SITE, carrier)) as transport:
        transport.open(site("one"), None)
        for _ in range(100):
            sender.send([(carrier.address, datagram("nobody's"))] * 10)
            await trio.sleep(shared.OTHERS_PAUSE_S / 10)
        assert transport.statistics().unclaimed_datagrams > 900
        assert carrier.looked < 20


async def test_one_receiver_reads_the_datagrams_of_the_other_clusters_too() -> None:
    """So a channel that is busy waits for no other task; and none is needed for those that are."""
    network = MemoryNetwork()
    sender, transport = network.open(), SharedTransport(SITE, network.open())
    one, two = transport.open(site("one"), None), transport.open(site("two"), None)
    sender.send([(one.physical()[0], datagram(name)) for name in ("two", "one")])
    assert len(one.receive()) == 1
    await two.wait()
    assert len(two.receive()) == 1


async def test_a_plain_datagram_reaches_the_seal_and_is_dropped_and_counted() -> None:
    """A datagram names its cluster also when it is secured otherwise, so that this is counted where an operator looks."""
    network, drops = MemoryNetwork(), list[str]()
    sender, transport = network.open(), SharedTransport(SITE, network.open())
    proofs = Proofs("one", KeyRing.of(bytes(32)))
    sealed = SealedTransport(transport.open(site("one"), proofs), proofs, lambda reason, count: drops.extend([reason] * count))
    sender.send([(sealed.physical()[0], datagram("one"))])
    assert sealed.receive() == []
    assert drops == ["seal_plain"]


def alike() -> tuple[str, str]:
    """Two names whose sealed datagrams look alike from outside."""
    seen: dict[bytes, str] = {}
    for number in range(1 << 22):
        name = f"site {number}"
        tag = envelope.tag(name)
        if tag in seen:
            return seen[tag], name
        seen[tag] = name
    raise AssertionError("there are 2^32 tags, and a pair among 2^22 names is certain enough")


async def test_two_clusters_whose_sealed_datagrams_look_alike_are_refused() -> None:
    transport = SharedTransport(SITE, MemoryNetwork().open())
    first, other = alike()
    part = transport.open(site(first), None)
    with pytest.raises(ConfigurationError, match="look alike"):
        transport.open(site(other), None)
    part.close()
    transport.open(site(other), None)


async def test_a_part_closed_twice_does_not_displace_its_successor() -> None:
    network = MemoryNetwork()
    sender, transport = network.open(), SharedTransport(SITE, network.open())
    before = transport.open(site("one"), None)
    before.close()
    after = transport.open(site("one"), None)
    before.close()
    sender.send([(after.physical()[0], datagram("one"))])
    before.send([(sender.address, b"late")])
    assert [len(part.receive()) for part in (before, after)] == [0, 1]
    assert sender.receive() == []


async def test_a_part_that_was_reading_when_the_transport_was_closed_does_not_wait_for_ever(autojump_clock: MockClock) -> None:
    transport = SharedTransport(SITE, MemoryNetwork().open())
    part = transport.open(SITE, None)
    transport.close()
    part.receive()
    with trio.fail_after(1), pytest.raises(ChannelClosed):
        await part.wait()


async def test_the_keys_of_a_closed_channel_admit_no_further_connection() -> None:
    config = replace(SITE, transport=TransportConfig(kind="tcp", interface="127.0.0.1"))
    carrier, nonce = TcpTransport(config.transport, Physical("239.192.0.1", 7600)), bytes(NONCE_BYTES)
    transport = SharedTransport(config, carrier)
    secrets = [Proofs(name, KeyRing.of(bytes(32))) for name in ("one", "two")]
    peers = [Greeting(Physical("127.0.0.1", 1), each).proven_hello(SEALED_MAGIC + nonce) for each in secrets]
    parts = [transport.open(replace(config, site=each.cluster), each) for each in secrets]
    assert all(carrier.greeting.admit(peer, nonce) for peer in peers)
    parts[0].close()
    assert [carrier.greeting.admit(peer, nonce) is not None for peer in peers] == [False, True]
    transport.close()


async def test_idle_connections_close_though_no_channel_is_left() -> None:
    config = replace(SITE, transport=TransportConfig(kind="tcp", interface="127.0.0.1", connection_idle_s_max=0.2))
    carrier, peer = (TcpTransport(config.transport, Physical("239.192.0.1", 7600)) for _ in range(2))
    async with reading(SharedTransport(config, carrier)) as transport:
        transport.open(replace(config, site="one"), None).close()
        peer.send([(transport.place, datagram("one"))])
        await until(lambda: carrier.statistics().connections_taken == 1)
        with trio.fail_after(5):
            await until(lambda: carrier.levels()["connections"].now == 0)
    peer.close()


class TestGroups:
    """One socket hears the multicast groups of all clusters."""

    async def test_a_group_is_joined_while_a_part_uses_it(self) -> None:
        group, other = "239.193.7.1", "239.193.7.2"
        async with open_transport(SITE) as p, open_transport(SITE) as q:

            def parts(name: str, at: str) -> tuple[TransportPart, TransportPart]:
                config = replace(SITE, site=name, transport=replace(SITE.transport, multicast_group=at))
                return p.open(config, None), q.open(config, None)

            def sent(of: tuple[TransportPart, TransportPart]) -> None:
                of[0].send([(None, datagram(of[0].cluster))])

            one, two, three = parts("one", group), parts("two", group), parts("three", other)
            for each in (one, two, three):
                sent(each)
            for each in (one, two, three):
                await each[1].wait()
                assert len(each[1].receive()) == 1
            one[1].close()
            assert isinstance(q.carrier, UdpTransport)
            assert len(q.carrier._memberships) == 2, "two still wants the group that it shares with one"
            two[1].close()
            assert list(q.carrier._memberships) == [Physical(other, SITE.transport.multicast_port)]
            before = q.statistics().unclaimed_datagrams
            sent(two)
            sent(three)
            await three[1].wait()
            assert len(three[1].receive()) == 1
            assert q.statistics().unclaimed_datagrams == before, "nobody has to look at what nobody wants"


class TestDesk:
    """Where the members of a shared transport are watched."""

    @pytest.mark.parametrize("proofs", [None, Proofs("NYC", KeyRing.of(bytes(32)))], ids=["insecure", "sealed"])
    async def test_strangers_occupy_a_bounded_number_of_slots_for_a_short_time(
        self, proofs: Proofs | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(watch, "ANSWER_TIMEOUT_S", 0.2)
        async with open_transport(SITE) as transport, trio.open_nursery() as nursery:
            part = transport.open(SITE, proofs)
            desk = present(part.listener())
            place = part.physical()[0]
            watcher = Watcher(A, "A in NYC", desk, lambda event: None, nursery, [place], proofs)
            strangers = [await trio.open_tcp_stream(*place) for _ in range(2 * watch.PENDING_MAX)]
            await until(lambda: watcher.statistics().unproven >= watch.PENDING_MAX)
            assert watcher.levels()["pending"].now <= watch.PENDING_MAX
            heard = b""
            with trio.fail_after(5):
                while data := await strangers[-1].receive_some():
                    heard += data
            assert heard.find(A) == -1
            for each in strangers:
                await each.aclose()
            nursery.cancel_scope.cancel()

    async def test_a_proof_for_another_cluster_receives_no_answer(self) -> None:
        one, other = Proofs("NYC", KeyRing.of(bytes(32))), Proofs("SFO", KeyRing.of(bytes(32)))
        async with open_transport(SITE) as transport, trio.open_nursery() as nursery:
            part = transport.open(SITE, one)
            desk = present(part.listener())
            place = part.physical()[0]
            Watcher(A, "A in NYC", desk, lambda event: None, nursery, [place], one)
            async with await trio.open_tcp_stream(*place) as stranger:
                nonce = (await stranger.receive_some(100))[-NONCE_BYTES:]
                proof = other.make("watch", nonce, bytes(NONCE_BYTES), str(place).encode())
                assert len(proof) == PROOF_BYTES
                await stranger.send_all(bytes(NONCE_BYTES) + proof)
                assert await stranger.receive_some(100) == b""
            nursery.cancel_scope.cancel()


async def test_wait_returns_only_when_something_is_there(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    a, b = network.open(), network.open()
    with trio.move_on_after(5) as waited:
        await b.wait()
    assert waited.cancelled_caught
    a.send([(b.address, b"x")])
    await b.wait()
    b.receive()
    with trio.move_on_after(5) as waited:
        await b.wait()
    assert waited.cancelled_caught


def test_the_network_loses_filtered_datagrams_and_those_to_a_closed_member() -> None:
    cut: set[Physical] = set()
    network = MemoryNetwork(lambda source, to: not {source, to} & cut)
    a, b = network.open(), network.open()
    cut.add(b.address)
    a.send([(b.address, b"lost")])
    cut.clear()
    a.send([(b.address, b"kept")])
    assert b.receive() == [(b"kept", a.address)]
    b.close()
    a.send([(b.address, b"nobody"), (None, b"all")])
    assert b.receive() == []


def test_a_reader_that_does_not_read_loses_datagrams() -> None:
    network = MemoryNetwork()
    a, b = network.open(), network.open()
    a.send([(b.address, b"x")] * (QUEUED_DATAGRAMS_MAX + 3))
    assert b.statistics().overrun_datagrams == 3
    assert len(b.receive()) == QUEUED_DATAGRAMS_MAX
