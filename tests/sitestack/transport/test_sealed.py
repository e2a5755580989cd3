"""Sealed transports: over a network in memory with an observer, over UDP, over TCP; and members that use them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import trio
from trio.testing import MockClock

from relay_lab.drills.layout import draw_group
from sitestack.channel.open import open_channel
from sitestack.config import TransportConfig
from sitestack.model.address import Physical
from sitestack.seal.envelope import OVERHEAD_BYTES
from sitestack.seal.key_ring import KeyRing, SiteKey
from sitestack.seal.proofs import Proofs
from sitestack.transport import Transport, clock
from sitestack.transport.memory import MemoryNetwork
from sitestack.transport.sealed import REFUSED_PAUSE_S, SealedTransport
from sitestack.transport.tcp import TcpTransport
from sitestack.transport.udp import UdpTransport
from tests.harness.channels import NYC, members, one, take, together
from tests.harness.sockets import until

KEYS, OTHER = KeyRing.of(bytes(32)), SiteKey(bytes([1]) * 32)
HELLO = b"hello, this is not a very large datagram"


class Sealed:
    """A sealed transport, and its received datagrams."""

    def __init__(self, carrier: Transport, keys: KeyRing = KEYS, cluster: str = "NYC") -> None:
        self.drops = Counter[str]()
        self.transport = SealedTransport(carrier, Proofs(cluster, keys), self._count)
        self.heard: list[bytes] = []
        [self.place] = self.transport.physical()

    def _count(self, reason: str, count: int) -> None:
        self.drops[reason] += count

    def say(self, data: bytes, to: Physical | None = None) -> None:
        self.transport.send([(to, data)])

    def listen(self) -> None:
        self.heard += [data for data, _ in self.transport.receive()]


def settle(*parties: Sealed) -> None:
    for _ in range(4):
        for each in parties:
            each.listen()


async def test_multicasts_and_unicasts_pass_and_nothing_of_them_can_be_read() -> None:
    network = MemoryNetwork()
    a, b, c, wire = Sealed(network.open()), Sealed(network.open()), Sealed(network.open()), network.open()
    a.say(HELLO)
    settle(a, b, c)
    b.say(b"to a", a.place)
    settle(a, b, c)
    assert (a.heard, b.heard, c.heard) == ([b"to a"], [HELLO], [HELLO])
    [(sealed, _)] = wire.receive()
    assert len(sealed) == len(HELLO) + OVERHEAD_BYTES
    assert not any(HELLO[at : at + 4] in sealed for at in range(len(HELLO) - 3))


async def test_a_copied_datagram_is_refused_by_its_receiver_and_by_a_restarted_one() -> None:
    network = MemoryNetwork()
    a, b, wire = Sealed(network.open()), Sealed(network.open()), network.open()
    a.say(HELLO)
    settle(a, b)
    [(sealed, _)] = wire.receive()
    wire.send([(b.place, sealed)] * 3)
    settle(a, b)
    assert (b.heard, b.drops["seal_replayed"]) == ([HELLO], 3)
    b.transport.close()
    a.transport.close()
    again = Sealed(network.open())
    wire.send([(again.place, sealed)] * 3)
    settle(again)
    assert again.heard == []
    questions = [data for data, _ in wire.receive()]
    assert len(questions) == 1
    assert len(questions[0]) <= len(sealed)


async def test_a_copy_from_before_a_suspension_of_the_receiver_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers above have forgotten their past by then."""
    slept_s, network = 1_000.0, MemoryNetwork()
    monkeypatch.setattr(clock, "suspended_s", lambda: slept_s)
    a, b, wire = Sealed(network.open()), Sealed(network.open()), network.open()
    a.say(HELLO)
    settle(a, b)
    network.allow = lambda _, to: to != b.place
    a.say(b"overtaken")
    network.allow = lambda *_: True
    overtaken, _ = wire.receive()[-1]
    a.say(b"newer")
    settle(a, b)
    slept_s += 250.0
    wire.send([(b.place, overtaken)])
    settle(b)
    assert (b.heard, b.drops["seal_late"]) == ([HELLO, b"newer"], 1)


async def test_each_restart_uses_a_new_sender_id() -> None:
    """C7: each key is derived from the sender id too, so nonces that begin again belong to another key."""
    network = MemoryNetwork()
    wire, sender_ids = network.open(), set[bytes]()
    for _ in range(10):
        again = Sealed(network.open())
        again.say(HELLO)
        [(sealed, _)] = wire.receive()
        sender_ids.add(sealed[8:24])
        again.transport.close()
    assert len(sender_ids) == 10


async def test_a_removed_key_proves_nothing_at_the_connections_either() -> None:
    """C20."""
    a, old = Sealed(MemoryNetwork().open()), Proofs("NYC", KEYS).make("watch", b"nonce")
    assert a.transport.proofs.are_sound(old, "watch", b"nonce")
    a.transport.use_ring(KeyRing.of(OTHER.secret))
    assert not a.transport.proofs.are_sound(old, "watch", b"nonce")


async def test_two_clusters_with_one_key_and_one_multicast_address_drop_each_other() -> None:
    """C8."""
    network = MemoryNetwork()
    nyc, sfo = Sealed(network.open()), Sealed(network.open(), cluster="SFO")
    for _ in range(3):
        for each in (nyc, sfo):
            each.say(HELLO)
        settle(nyc, sfo)
    assert nyc.heard == sfo.heard == []
    assert nyc.drops["seal_cluster"] == sfo.drops["seal_cluster"] == 3


async def test_members_with_and_without_keys_do_not_receive_each_other() -> None:
    network = MemoryNetwork()
    a, plain = Sealed(network.open()), network.open()
    plain.send([(a.place, b"\xb7R\x02 a plain datagram")])
    settle(a)
    assert (a.heard, dict(a.drops), plain.receive()) == ([], {"seal_plain": 1}, [])


def drawn() -> TransportConfig:
    """With a new group: two runs on one machine have the same keys."""
    group, port = draw_group()
    return TransportConfig(interface="127.0.0.1", multicast_group=group, multicast_port=port)


@pytest.mark.parametrize("kind", ["udp", "tcp"])
async def test_over_real_sockets(kind: str) -> None:
    proofs, config = Proofs("NYC", KEYS), drawn()
    group = Physical(config.multicast_group, config.multicast_port)

    def make() -> Transport:
        return TcpTransport(config, group, proofs) if kind == "tcp" else UdpTransport(config, group, watched=False)

    a, b = Sealed(make()), Sealed(make())
    said = [b"%d %s" % (number, HELLO) for number in range(200)]
    for each in said:
        a.say(each, b.place)
    await until(lambda: len(b.heard) >= len(said), a.listen, b.listen)
    b.say(HELLO, a.place)
    await until(lambda: len(a.heard) > 0, a.listen, b.listen)
    assert (b.heard, a.heard) == (said, [HELLO])
    a.transport.close()
    b.transport.close()


async def test_members_with_one_key_are_a_site_over_udp() -> None:
    config = replace(NYC, transport=drawn())
    async with together(*[open_channel(config, name=name, keys=KEYS) for name in "ABC"]) as [a, b, c]:
        for number in range(100):
            await a.send(b"%d" % number)
        for each in (a, b, c):
            assert [message.payload for message in await take(each, 100)] == [b"%d" % number for number in range(100)]
        await until(lambda: a._residence.watcher is not None and a._residence.watcher.statistics().watching > 0)
        assert a.levels()["transport.seal.senders"].now == 2
        assert not {"magic", "seal_forged", "seal_plain", "seal_late"} & a._stack.drops.keys()


async def test_large_messages_fit_into_sealed_datagrams() -> None:
    config = replace(NYC, transport=replace(drawn(), datagram_bytes_max=65_507))
    async with together(*[open_channel(config, name=name, keys=KEYS) for name in "AB"]) as [a, b]:
        await a.send(bytes(1 << 20))
        [message] = await take(b, 1)
        assert len(message.payload) == 1 << 20
        statistics = a.statistics().transport
        assert getattr(statistics, "unsent_datagrams") == 0  # noqa: B009 (statistics differ by the kind of transport)


@pytest.mark.parametrize(
    ("first", "second", "reasons"),
    [
        (KEYS, None, ("seal_plain", "sealed")),
        (None, KEYS, ("sealed", "seal_plain")),
        (KEYS, KeyRing.of(OTHER.secret), ("seal_key", "seal_key")),
    ],
)
async def test_members_that_differ_in_keys_never_form_a_view(
    first: KeyRing | None, second: KeyRing | None, reasons: tuple[str, str], autojump_clock: MockClock
) -> None:
    network = MemoryNetwork()
    async with one(network, "A", keys=first) as a, one(network, "B", keys=second) as b:
        await trio.sleep(60)
        assert (len(a.view.members), len(b.view.members)) == (1, 1)
        for channel, reason in ((a, reasons[0]), (b, reasons[1])):
            assert channel._stack.drops[reason] > 0


async def test_members_join_without_waiting_longer_for_their_introductions(autojump_clock: MockClock) -> None:
    taken = []
    for keys in (None, KEYS):
        began = trio.current_time()
        async with members("A", "B", keys=keys):
            taken.append(trio.current_time() - began)
    assert taken[1] == pytest.approx(taken[0], abs=0.1)


async def test_a_copy_to_another_member_does_not_make_it_report_the_receiver_dead(autojump_clock: MockClock) -> None:
    """A stranger copies A's datagram for B to C, which sees it for the first time: C must not answer that B is gone."""
    network = MemoryNetwork()
    async with members("A", "B", "C", network=network, keys=KEYS) as [a, b, c]:
        carry = network.carry
        [third] = c.transport.physical()

        def copied(source: Physical, to: Physical | None, data: bytes) -> None:
            carry(source, to, data)
            if to not in (None, third):
                carry(source, third, data)

        network.carry = copied  # type: ignore[method-assign]
        for number in range(20):
            await b.send(b"%d" % number, target=a.address)
            await trio.sleep(0.5)
        assert c._stack.drops["misdirected"] > 0
        assert [len(each.view.members) for each in (a, b, c)] == [3, 3, 3]
        assert a.view.id == b.view.id == c.view.id
        assert a.view.id.counter == 3, "there was no view in between"


async def test_a_flood_of_unsealed_datagrams_is_processed_at_a_bounded_rate(autojump_clock: MockClock) -> None:
    network = MemoryNetwork()
    a, stranger = Sealed(network.open()), network.open()
    began, looks = trio.current_time(), 0
    while trio.current_time() < began + 1.0:
        stranger.send([(a.place, b"garbage")])
        await a.transport.wait()
        a.listen()
        looks += 1
        assert looks <= 2 / REFUSED_PAUSE_S, "a member that does not wait would never be done"
    assert 1 / REFUSED_PAUSE_S - 1 <= looks <= 1 / REFUSED_PAUSE_S + 1
    b = Sealed(network.open())
    b.say(HELLO)
    settle(a, b)
    stranger.send([(a.place, b"garbage")])
    b.say(b"among garbage")
    a.listen()
    now = trio.current_time()
    b.say(b"at once")
    await a.transport.wait()
    a.listen()
    assert (a.heard, trio.current_time()) == ([HELLO, b"among garbage", b"at once"], now)
