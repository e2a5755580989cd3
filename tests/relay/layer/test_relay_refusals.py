"""Refusals of a relay layer, each under a separate name; none is delivered."""

from __future__ import annotations

import pytest

from relay.replica.entries import DeliverUnicast, ForwardUnicast, HeldChunk, HeldRequest, RemoteGap, UnicastReply
from relay.replica.held_entries import HeldEntries
from sitestack.model.address import Address
from sitestack.model.frame import Frame
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Dropped
from tests.harness.relay.puppet import D, E, Puppet, alone, data, hello
from tests.harness.relay.world import sites_of


def unicast_to(member: Address) -> Batch:
    return Batch("SFO", D, Scope.UNICAST, 1, 1, pack_body([b"x"]), member, "NYC")


@pytest.mark.conforms("REL-34")
def test_a_unicast_that_is_not_its_senders_own_is_not_forwarded() -> None:
    """A member may not speak for another one."""
    _world, nyc = alone()
    relay, other = nyc.relay, nyc.members[1]
    theirs = Batch("NYC", nyc.members[2].address, Scope.UNICAST, 1, 1, pack_body([b"x"]), E, "SFO")
    for batch in (None, theirs):
        frame = Frame(other.address, relay.address, (ForwardUnicast(0, 0),), batch)
        assert relay.layer.up(frame, 0.0) == [Dropped("relay_malformed")]


@pytest.mark.conforms("REL-34")
def test_a_unicast_for_somebody_else_is_not_delivered() -> None:
    _world, nyc = alone()
    relay, other = nyc.relay, nyc.members[1]
    for batch in (None, unicast_to(relay.address)):
        frame = Frame(relay.address, other.address, (DeliverUnicast(0, 0),), batch)
        assert other.layer.up(frame, 0.0) == [Dropped("relay_malformed")]
    assert other.words == []


def test_a_buffer_is_handed_to_who_shows_its_token_and_taken_from_who_was_asked() -> None:
    """No process can have it sent to another one, or push entries into a member or a joiner."""
    _world, nyc = alone()
    relay, stranger = nyc.relay, Address(bytes([99]) * 16)
    for header in (HeldRequest(7, 0, ()), HeldChunk(7, 0, HeldEntries.of(()), 0)):
        frame = Frame(stranger, relay.address, (header,))
        assert relay.layer.up(frame, 0.0) == [Dropped("relay_handover")]


@pytest.mark.conforms("REL-13")
def test_a_gap_that_two_relays_report_is_settled_once() -> None:
    """The second of two copies that are in the stream already: the first has settled it."""
    _world, nyc = alone()
    puppet = Puppet(nyc).greet()
    puppet.say(data(1))
    nyc.cast(RemoteGap("SFO", D, 2, 5, GapReason.BUDGET))
    nyc.cast(RemoteGap("SFO", D, 2, 5, GapReason.BUDGET))
    nyc.world.settle()
    for member in nyc.members:
        assert member.gaps() == [(2, 5)]
        assert member.drops["relay_gap_settled"] == 1


@pytest.mark.conforms("REL-34")
def test_a_reply_for_which_the_link_has_no_room_is_counted() -> None:
    """The origin asks again, since it hears nothing."""
    _world, nyc = alone(unicast_bytes_max=200)
    puppet = Puppet(nyc)
    puppet.say_without_turn(hello())
    member = nyc.members[1]
    replies = [UnicastReply("SFO", D, "NYC", member.address, n, 0, None) for n in range(1, 20)]
    drops = [
        effect for reply in replies for effect in nyc.relay.layer.up(Frame(member.address, nyc.relay.address, (reply,)), 0.0)
    ]
    assert Dropped("relay_reply_queue_full") in drops
    puppet.close()
    assert nyc.relay.layer.up(Frame(member.address, nyc.relay.address, (replies[0],)), 0.0) == [Dropped("relay_reply_no_link")]


def test_a_relay_of_another_peer_than_the_one_that_was_called_is_refused() -> None:
    world, sites = sites_of({"LAX": 1, "NYC": 2, "SFO": 1})
    world.settle()
    nyc = sites["NYC"]
    puppet = Puppet(nyc, dialed="SFO")
    puppet.say(hello(site="LAX"))
    assert not puppet.open
    assert nyc.relay.drops["hello_wrong_site"] == 1


@pytest.mark.conforms("REL-14")
def test_a_chunk_that_is_not_taken_closes_the_link() -> None:
    """F24, where the link is: the kernel of the other end has hung."""
    world, nyc = alone(write_s=5.0)
    puppet = Puppet(nyc).greet()
    nyc.relay.send("x")
    world.mute = True
    world.run(30)
    assert not puppet.open
    assert nyc.relay.drops["link_stuck"] == 1
