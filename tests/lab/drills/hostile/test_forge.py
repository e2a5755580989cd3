"""Members would accept the forged datagrams from each other; otherwise their refusal would prove nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import pytest
import trio
from trio.testing import MockClock

from relay.layer import RelayLayer
from relay.node.config.settings import NodeConfig
from relay_lab.drills.hostile.datagrams import _sealed_heads, _unproven
from relay_lab.drills.hostile.forge import Forged, Forger, Knowledge, bombs
from relay_lab.drills.hostile.lan import Heard
from sitestack.assembly import build_layers
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import local
from sitestack.model.address import Address, Physical
from sitestack.model.errors import ProtocolError
from sitestack.model.frame import Header
from sitestack.model.view import ViewId
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal
from sitestack.stack.layer import Local
from sitestack.stack.stack import collect_headers
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take, wait_for_view

A, B, ME = (Address(bytes([number] * 16)) for number in (1, 2, 9))
PLACE = Physical("198.18.0.1", 999)


def headers() -> dict[int, type[Header]]:
    rng, config = random.Random(1), NodeConfig(site="NYC")
    local = Local("NYC", ME, "x", rng)
    return collect_headers([*build_layers(local, config), RelayLayer(local, config.relay_layer())])


def forger(seed: int = 1) -> Forger:
    return Forger(headers(), Knowledge("NYC", (A, B), ViewId(7, A), ME, PLACE), random.Random(seed))


@pytest.mark.parametrize("seed", range(3))
def test_every_header_of_a_member_is_forged_so_that_a_member_parses_it(seed: int) -> None:
    made = forger(seed)
    kinds = {kind.__name__ for kind in headers().values()}
    #: Two forms for all members, three for one member.
    forged = list(islice(made.rounds(), 5 * len(kinds)))
    assert {each.kind for each in forged} == kinds
    for each in forged:
        datagram = made.codec.decode(each.data)
        assert type(datagram.frames[0].headers[0]).__name__ == each.kind
        assert datagram.dest == each.dest
    assert {made.codec.decode(each.data).source for each in forged} == {A, B, ME}


def test_a_forged_contact_has_the_address_of_the_attacker() -> None:
    assert forger().contact(A).physical == (PLACE,)


def test_each_kind_of_bomb_is_there_and_of_new_strangers() -> None:
    made = forger()
    supply = list(islice(bombs(made, "NYC", A, random.Random(1)), 22))
    by_kind: dict[str, list[Forged]] = {}
    for each in supply:
        by_kind.setdefault(each.kind, []).append(each)
        assert len(each.data) < 65_507
    assert {kind: len(each) for kind, each in by_kind.items()} == dict.fromkeys(by_kind, 2)
    for kind in ("strangers", "join requests", "first fragments", "later views"):
        first, second = [made.codec.decode(each.data).source for each in by_kind[kind]]
        assert first != second
    for kind in ("nested arrays", "empty lists", "garbage", "truncated"):
        with pytest.raises(ProtocolError):
            made.codec.decode(by_kind[kind][0].data)


def test_an_envelope_of_a_stranger_looks_like_one_of_the_site_and_proves_nothing() -> None:
    ring = KeyRing.of(bytes(32))
    member, other = [Seal("NYC", ring, bytes([number]) * 16, lambda: bytes(8), 0.0) for number in (1, 2)]
    heads = _sealed_heads([Heard(PLACE, PLACE, data) for data in (member.seal(b"x", 0.0), b"plain", b"")])
    assert len(heads) == 1
    made = [_unproven(heads[0], random.Random(seed)) for seed in range(3)]
    assert len({each[8:24] for each in made}) == 3
    assert other.open([(each, PLACE) for each in made], 0.0).drops == {"seal_forged": 3}


KEYS, OTHER_KEYS = KeyRing.of(bytes(32)), KeyRing.of(bytes([1]) * 32)
SITE = local("NYC")


class Attacker:
    """Knows the members, their view and where they are, and has the key of another site."""

    def __init__(self, network: MemoryNetwork, channels: list[Channel]) -> None:
        rng, me = random.Random(1), Address(bytes([9] * 16))
        self.transport = network.open()
        self._headers = collect_headers(build_layers(Local("NYC", me, "x", rng), SITE))
        members = tuple([channel.address for channel in channels])
        known = Knowledge("NYC", members, channels[0].view.id, me, self.transport.address)
        self._forger = Forger(self._headers, known, rng)
        self._seal = Seal("NYC", OTHER_KEYS, rng.randbytes(16), lambda: rng.randbytes(8), 0.0)
        self._at: dict[Address, Physical] = {channel.address: channel.transport.physical()[0] for channel in channels}

    def shots(self, rounds: int) -> Iterator[tuple[list[Physical], bytes]]:
        """Every header of members in five forms, as it is and sealed with the other key, and to whom."""
        for shot in islice(self._forger.rounds(), 5 * rounds * len(self._headers)):
            to = list(self._at.values()) if shot.dest is None else [self._at[shot.dest]]
            yield to, shot.data
            yield to, self._seal.seal(shot.data, 0.0)


async def test_forged_views_joins_suspicions_and_all_the_rest_do_nothing_and_are_answered_by_nothing(
    autojump_clock: MockClock,
) -> None:
    network = MemoryNetwork()
    async with (
        open_channel(SITE, name="A", keys=KEYS, transport=network.open()) as a,
        open_channel(SITE, name="B", keys=KEYS, transport=network.open()) as b,
    ):
        channels = [a, b]
        for channel in channels:
            await wait_for_view(channel, 2)
        views, attacker = [channel.view for channel in channels], Attacker(network, channels)
        answered = list[bytes]()
        carry = network.carry

        def carried(source: Physical, to: Physical | None, data: bytes) -> None:
            if to == attacker.transport.address:
                answered.append(data)
            carry(source, to, data)

        network.carry = carried  # type: ignore[method-assign]
        shots = 0
        for to, data in attacker.shots(rounds=4):
            attacker.transport.send([(place, data) for place in to])
            shots += len(to)
            await trio.sleep(0.01)
        await trio.sleep(30)
        assert [channel.view for channel in channels] == views, "nobody came, nobody went"
        assert answered == []
        refused = [sum(channel._stack.drops.get(each, 0) for each in ("seal_plain", "seal_key")) for channel in channels]
        assert sum(refused) == shots > 500
        await a.send(b"said by a member")
        for channel in channels:
            assert [each.payload for each in await take(channel, 1)] == [b"said by a member"], "nothing forged came first"
