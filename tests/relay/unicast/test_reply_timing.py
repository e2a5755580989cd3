"""Timing of acknowledgements of unicasts: several together, but before their sender may be gone."""

from __future__ import annotations

import pytest

from relay.events import Unreachable
from relay.unicast.forwarding import REPLIES_MAX, REPLY_DELAY_S
from relay.unicast.receiver import UnicastReceiver
from sitestack.model.address import Address
from sitestack.model.events import Disconnect
from sitestack.model.message import Batch, Scope, pack_body
from tests.harness.relay.member import Member
from tests.harness.relay.puppet import D, alone
from tests.harness.relay.world import two_sites
from tests.relay.unicast.test_remote_unicast import proxy


def pending(member: Member) -> int:
    return member.layer.unicasts.sender.pending_bytes


def test_replies_to_many_unicasts_go_back_as_one() -> None:
    world, nyc, sfo = two_sites()
    world.run(1)
    c, f = nyc.members[2], sfo.members[2]
    for n in range(5):
        c.send(f"{n}", dest=proxy(f))
        world.settle()
    assert f.words == ["0", "1", "2", "3", "4"]
    assert pending(c), "delivered at once, acknowledged a little later"
    world.run(REPLY_DELAY_S)
    assert pending(c) == 0


@pytest.mark.parametrize(("who", "leaves"), [(0, True), (2, True), (2, False)])
def test_a_leaving_member_acknowledges_first_and_a_view_change_waits_for_no_reply(who: int, leaves: bool) -> None:
    world, nyc, sfo = two_sites()
    world.run(1)
    c, f = nyc.members[2], sfo.members[who]
    c.send("last", dest=proxy(f))
    world.settle()
    assert pending(c)
    if leaves:
        f.say(Disconnect())
    else:
        sfo.block()
    world.settle()
    assert pending(c) == 0
    assert c.of(Unreachable) == []


def test_for_many_senders_it_waits_no_longer() -> None:
    _world, nyc = alone()
    unicasts = nyc.relay.layer.unicasts
    for n in range(REPLIES_MAX):
        assert unicasts.acknowledge(0.0) == []
        origin = Address(bytes([1]) * 14 + n.to_bytes(2))
        unicasts.receiver.receive(0, Batch("SFO", origin, Scope.UNICAST, 1, 1, pack_body([b"x"]), nyc.relay.address, "NYC"))
    unicasts.acknowledge(0.0)
    assert not unicasts.receiver.owed
    assert unicasts.reply_due is None


def test_no_acknowledgement_is_due_while_none_is_owed() -> None:
    receiver = UnicastReceiver("NYC", D)
    assert not receiver.owed
    _world, nyc = alone()
    assert nyc.relay.layer.unicasts.acknowledge(5.0) == []
    assert nyc.relay.layer.unicasts.reply_due is None
