"""Forged datagrams have no effect on members with keys, whatever source they claim (C3, C4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice

import trio
from trio.testing import MockClock

from relay_lab.drills.hostile.forge import Forger, Knowledge
from sitestack.assembly import build_layers
from sitestack.channel.channel import Channel
from sitestack.channel.open import open_channel
from sitestack.config import local
from sitestack.model.address import Address, Physical
from sitestack.seal.key_ring import KeyRing
from sitestack.seal.seal import Seal
from sitestack.stack.layer import Local
from sitestack.stack.stack import collect_headers
from sitestack.transport.memory import MemoryNetwork
from tests.harness.channels import take, wait_for_view

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
