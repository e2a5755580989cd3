"""Between two and more sites: every multicast once and in order everywhere, no circles, unicasts there and back."""

from __future__ import annotations

import pytest

from relay.events import Duty, Role
from relay.replica.config import BufferConfig, SpillSettings
from relay.replica.entries import DeliverUnicast, ForwardUnicast, HeldChunk, HeldRequest, RemoteGap, UnicastReply
from relay.replica.held_entries import HeldEntries
from relay_lab.simulation.containers import containers
from sitestack.model.address import Address, ProxyUUID
from sitestack.model.frame import Frame
from sitestack.model.gap import GapReason
from sitestack.model.message import Batch, Scope, pack_body
from sitestack.stack.layer import Dropped
from tests.harness.relay.puppet import D, E, Puppet, alone, alone_and_greeted, data, hello
from tests.harness.relay.site import FakeSite
from tests.harness.relay.world import sites_of, two_linked_sites, two_sites


@pytest.mark.conforms("REL-4", "REL-15")
@pytest.mark.parametrize("cut", [None, 1, 7])
def test_a_multicast_is_delivered_once_and_in_order_at_every_member_of_both_sites(cut: int | None) -> None:
    world, nyc, sfo = two_linked_sites(cut=cut)
    for n in range(20):
        nyc.members[n % 3].send(f"n{n}")
        sfo.members[n % 3].send(f"s{n}")
    world.run(1)
    for site, own, other in ((nyc, "n", "s"), (sfo, "s", "n")):
        for member in site.members:
            delivered = member.words
            assert [text for text in delivered if text[0] == own] == [f"{own}{n}" for n in range(20)]
            assert [text for text in delivered if text[0] == other] == [f"{other}{n}" for n in range(20)]
        assert len({tuple(member.words) for member in site.members}) == 1


@pytest.mark.conforms("REL-2", "REL-11")
def test_exactly_the_coordinators_listen_and_have_connections() -> None:
    """R26: one relay a site. With several, each would need a share of the origins, or order and once-only would be lost."""
    world, nyc, sfo = two_linked_sites()
    for site in (nyc, sfo):
        assert [member.listening for member in site.members] == [True, False, False]
        assert [len(member.pipes) for member in site.members] == [1, 0, 0]
    nyc.kill(nyc.relay)
    world.run(1)
    assert [member.listening for member in nyc.members] == [True, False]
    roles = [event for event in nyc.relay.events if isinstance(event, Role)]
    assert (roles[-1].duty, roles[-1].sites) == (Duty.RELAY, ("SFO",))


@pytest.mark.conforms("REL-9", "REL-10")
@pytest.mark.parametrize("sender", [0, 2])
@pytest.mark.parametrize("replier", [0, 2])
def test_a_reply_finds_its_way_back_and_can_be_answered_again(sender: int, replier: int) -> None:
    """R15: the walk-through of RELAY names the receiver of a reply; an answer travels by the relay in the own site."""
    world, nyc, sfo = two_linked_sites()
    c, f = nyc.members[sender], sfo.members[replier]
    c.send("question")
    world.run(1)
    f.send("answer", dest=f.sources[-1])
    world.run(1)
    assert c.words == ["question", "answer"]
    source = c.sources[-1]
    assert isinstance(source, ProxyUUID)
    assert (source.original, source.site, source.relay) == (f.address, "SFO", nyc.relay.address)
    c.send("thanks", dest=source)
    world.run(1)
    assert f.words == ["question", "thanks"]
    assert c.layer.unicasts.sender.pending_bytes == f.layer.unicasts.sender.pending_bytes == 0
    for site in (nyc, sfo):
        for member in site.members:
            if member not in (c, f):
                assert member.words == ["question"]


@pytest.mark.conforms("REL-1", "REL-26")
def test_without_a_link_the_site_continues_and_relays_all_messages_later() -> None:
    world, nyc, sfo = two_sites()
    world.part("NYC", "SFO")
    for n in range(50):
        nyc.members[1].send(f"{n}")
        assert nyc.members[2].words[-1] == f"{n}"
    world.run(5)
    assert sfo.members[0].words == []
    world.heal()
    world.run(10)
    for member in sfo.members:
        assert member.words == [f"{n}" for n in range(50)]


def come_and_go(site: FakeSite) -> None:
    """Let twelve members join one after the other, send one message each, and die."""
    for n in range(12):
        worker = site.join(f"w{n}")
        site.world.settle()
        worker.send(f"w{n}")
        site.world.settle()
        site.kill(worker)
        site.world.settle()


@pytest.mark.conforms("REL-4")
def test_a_long_lived_sender_is_not_forgotten_after_many_short_lived_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """One relay may see more senders of another site come and go than it remembers; those that live are not forgotten."""
    monkeypatch.setattr("relay.replica.vectors.ORIGINS_MAX", 8)
    world, nyc, sfo = two_linked_sites(2)
    nyc.relay.send("first")
    world.run(1.0)
    come_and_go(nyc)
    nyc.relay.send("second")
    world.run(1.0)
    words = sfo.members[1].words
    assert [word for word in words if not word.startswith("w")] == ["first", "second"]
    assert sfo.members[1].gaps() == []
    assert "relay_hole" not in sfo.relay.drops


def test_the_tables_of_a_link_and_of_senders_stay_bounded_without_a_new_view_or_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link and a view may last for months, in which many members of the other site come and go."""
    monkeypatch.setattr("relay.replica.vectors.ORIGINS_MAX", 8)
    _world, nyc, sfo = two_linked_sites(2)
    come_and_go(nyc)
    found = [each for member in (nyc.relay, sfo.relay) for each in containers(member.layer, "relay", set(), deep=True)]
    tables = [(path, each) for path, each in found if path.endswith(("sender.sent", "sender.acked", "relay.proxies"))]
    assert len(tables) == 6
    assert [(path, len(each)) for path, each in tables if len(each) > 8] == []


def test_a_reconnection_after_more_senders_than_are_remembered_tells_no_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other site forgets the oldest sender at a new one's message, and this site only at its next view."""
    monkeypatch.setattr("relay.replica.vectors.ORIGINS_MAX", 8)
    world, nyc, sfo = two_linked_sites(2)
    come_and_go(nyc)
    nyc.join("M").send("m")
    world.run(1.0)
    for _ in range(4):
        world.break_links("NYC", "SFO")
        world.run(20.0)
    sfo.kill(sfo.relay)
    world.run(20.0)
    assert [member.gaps() for member in sfo.members] == [[]]
    assert sfo.relay.words == [*[f"w{n}" for n in range(12)], "m"]


@pytest.mark.parametrize("spill", [False, True])
def test_messages_held_for_a_third_site_are_not_delivered_twice_after_more_senders_than_are_remembered(
    monkeypatch: pytest.MonkeyPatch, spill: bool
) -> None:
    """X2: the second site has forgotten their senders, and they are still held for the third."""
    monkeypatch.setattr("relay.replica.vectors.ORIGINS_MAX", 8)
    buffer = BufferConfig(budget_entries=8, spill=SpillSettings(bytes=1 << 30, age_s=1e6)) if spill else BufferConfig()
    world, sites = sites_of({"NYC": 2, "SFO": 2, "LON": 2}, buffer=buffer)
    nyc, sfo, lon = sites["NYC"], sites["SFO"], sites["LON"]
    world.run(1.0)
    world.part("NYC", "LON")
    world.run(11.0)
    come_and_go(nyc)
    for _ in range(2):
        world.break_links("NYC", "SFO")
        world.run(20.0)
    world.heal()
    world.run(20.0)
    for member in (*sfo.members, *lon.members):
        assert (member.words, member.gaps()) == ([f"w{n}" for n in range(12)], [])
    assert len(nyc.relay.layer.state.buffer) == 0


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
def test_a_unicast_for_another_member_is_not_delivered() -> None:
    _world, nyc = alone()
    relay, other = nyc.relay, nyc.members[1]
    for batch in (None, unicast_to(relay.address)):
        frame = Frame(relay.address, other.address, (DeliverUnicast(0, 0),), batch)
        assert other.layer.up(frame, 0.0) == [Dropped("relay_malformed")]
    assert other.words == []


def test_a_buffer_request_or_chunk_from_a_stranger_is_dropped() -> None:
    """No process can have it sent to another one, or push entries into a member or a joiner."""
    _world, nyc = alone()
    relay, stranger = nyc.relay, Address(bytes([99]) * 16)
    for header in (HeldRequest(7, 0, ()), HeldChunk(7, 0, HeldEntries.of(()), 0)):
        frame = Frame(stranger, relay.address, (header,))
        assert relay.layer.up(frame, 0.0) == [Dropped("relay_handover")]


@pytest.mark.conforms("REL-13")
def test_a_gap_that_two_relays_report_is_settled_once() -> None:
    """The second of two copies that are in the stream already: the first has settled it."""
    _world, nyc, puppet = alone_and_greeted()
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
