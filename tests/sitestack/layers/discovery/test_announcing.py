"""The highest number of a sender's stream is announced when it falls silent and when it is stuck, and not otherwise."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from sitestack.layers.discovery import INITIAL_HOSTS_MAX, Discovery, DiscoveryConfig
from sitestack.layers.discovery.search import Search
from sitestack.layers.nakack import NakAckConfig
from sitestack.layers.nakack.headers import Highest
from sitestack.layers.stability import StabilityConfig
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import (
    Connect,
    FindMembers,
    FindPhysical,
    Found,
    Peer,
    SetPhysical,
    SetRegistered,
    Stable,
    ViewInstalled,
)
from sitestack.model.frame import Destination, Frame
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address, local_of, place, view_of
from tests.harness.casters import V1, A, B, C, Casters, member_of_v1, nakack_of
from tests.harness.hosts import contact_of
from tests.harness.messages import frame_of, frames_in
from tests.harness.wire import keep, lose


def test_a_quiet_sender_announces_its_highest_number_until_all_is_stable() -> None:
    """B5: once everything is stable it is silent."""
    layer = member_of_v1("A", NakAckConfig(quiet_interval_s=0.1, quiet_interval_s_max=0.3, stuck_interval_s=60.0))
    layer.down(frame_of("A", 1), 0.0)
    layer.down(frame_of("A", 2), 0.05)
    said = [0.05]
    for _ in range(4):
        due = layer.deadline()
        assert due is not None
        assert layer.expire(due) == [Down(Frame(A, None, (Highest(V1.id, 2),), None, True))]
        said.append(due)
    now = said[-1]
    layer.down(frame_of("A", 3), now)
    for pause in (0.1, 0.2):
        now += pause
        assert layer.deadline() == pytest.approx(now)
        assert layer.expire(now + 1e-9) == [Down(Frame(A, None, (Highest(V1.id, 3),), None, True))]
    pauses = [later - earlier for earlier, later in pairwise(said)]
    assert pauses == pytest.approx([0.1, 0.2, 0.3, 0.3])
    layer.down(Stable({A: 1}), now)
    assert layer.deadline() == pytest.approx(now + 0.1)
    layer.down(Stable({A: 3}), now)
    assert layer.deadline() is None


def test_a_sender_of_whose_stream_nothing_becomes_stable_announces_it_to_each_by_unicast_however_busy_it_is() -> None:
    """Some member may receive unicasts only: it sees no hole, and the sender is never quiet."""
    layer = member_of_v1("B", NakAckConfig(quiet_interval_s=0.1, stuck_interval_s=1.0))
    said: list[tuple[int, Effect]] = []
    for n in range(1, 101):
        now = n * 0.05
        said += [(n, effect) for effect in layer.expire(now)]
        layer.down(frame_of("B", n), now)
        if n == 50:
            layer.down(Stable({B: 30}), now)
    expected = [(21, 20), (41, 40), (70, 69), (90, 89)]
    assert said == [(n, Down(Frame(B, to, (Highest(V1.id, last),), None, True))) for n, last in expected for to in (A, C)]
    layer.down(Stable({B: 100}), 5.0)
    assert layer.deadline() is None


def test_a_quiet_sender_that_is_stuck_announces_to_each_member_by_unicast() -> None:
    layer = member_of_v1("A", NakAckConfig(quiet_interval_s=0.1, quiet_interval_s_max=1.0, stuck_interval_s=1.0))
    layer.down(frame_of("A", 1), 0.0)
    story: list[tuple[float, list[object]]] = []
    while len(story) < 6:
        due = layer.deadline()
        assert due is not None
        dests = [each.event.dest for each in layer.expire(due) if isinstance(each, Down) and isinstance(each.event, Frame)]
        story.append((round(due, 3), list(dests)))
    assert story == [(0.1, [None]), (0.3, [None]), (0.7, [None]), (1.0, [B, C]), (2.0, [B, C]), (3.0, [B, C])]


def test_a_member_alone_announces_nothing() -> None:
    layer = nakack_of("A")
    layer.up(ViewInstalled(view_of(1, "A"), None), 0.0)
    layer.down(frame_of("A", 1), 0.0)
    assert layer.deadline() is None


# -- on a wire -----------------------------------------------------------------------------------------------------------


LAST_MESSAGE_STORY = """\
 100 ms A -> all: Highest(view=(1|A), seqno=5)
 121 ms B -> A: Retransmit(view=(1|A), sender=A, ranges=((5, 5),), in_vain=False)
 122 ms A -> B: Cast(view=(1|A), sender=A, seqno=5)"""


def test_a_lost_last_message_is_recovered_within_two_intervals_without_further_traffic() -> None:
    """F1: the last message of a burst arrives within 2 x interval."""
    config = NakAckConfig(quiet_interval_s=0.1)
    group = Casters("ABC", nakack=config)
    group.install(V1)
    group.send("A", 4)
    group.wire.rule = lose(lambda packet: packet.dest == "B")
    group.send("A")
    group.wire.rule = keep
    group.story()
    group.run(2 * config.quiet_interval_s)
    assert [group[name].firsts("A") for name in "ABC"] == [[1, 2, 3, 4, 5]] * 3
    assert group.story() == LAST_MESSAGE_STORY


def test_a_member_that_receives_only_unicasts_delivers_all_messages() -> None:
    group = Casters("ABC", stability=StabilityConfig())
    group.wire.rule = lose(lambda packet: packet.dest == "C" and any(frame.dest is None for frame in packet.frames))
    group.install(V1)
    for _ in range(200):
        group.send("A")
        group.send("B")
        group.run(0.02)
    assert len(group["C"].firsts("A")) > 100, "while the others are busy, too"
    group.run(3.0)
    assert [member.firsts(owner) for member in group.living() for owner in "AB"] == [list(range(1, 201))] * 6
    before = len(group.wire.sent)
    group.run(60.0)
    assert len(group.wire.sent) == before


@pytest.mark.conforms("LA-1")
def test_all_processes_of_one_name_are_found() -> None:
    search = Search(0.0, 1.0, 0.1, 10)
    for each in "CAB":
        assert search.heard(replace(contact_of(each, 1), name="A"), None, None, 0.0)
    assert search.outcome() == Found((Peer(A, None, None), Peer(B, None, None), Peer(C, None, None)))


def test_a_search_keeps_the_newest_answer_of_each_process_within_its_bound() -> None:
    search = Search(0.0, 1.0, 0.1, 2)
    for contact, is_heard in ((contact_of("A", 2), True), (contact_of("B", 1), True), (contact_of("C", 1), False)):
        assert search.heard(contact, None, None, 0.0) is is_heard
    assert search.heard(contact_of("A", 3), B, V1.id, 0.0)
    assert search.heard(contact_of("A", 1), None, None, 0.0)
    assert search.outcome() == Found((Peer(A, B, V1.id), Peer(B, None, None)))


def registered(*names: str, version: int = 1) -> SetRegistered:
    return SetRegistered(tuple(Contact(address(name), name, (place(name),), version) for name in names))


def asked(effects: list[Effect]) -> list[Destination]:
    return [frame.dest for frame in frames_in(effects, Down)]


@pytest.fixture
def discovery() -> Discovery:
    """That of A, which is connected and has an initial host."""
    made = Discovery(local_of("A"), DiscoveryConfig(initial_hosts=(place("H"),)))
    made.down(Connect((place("A"),)), 0.0)
    return made


@pytest.mark.conforms("LA-14", "LA-17")
def test_registered_members_are_cached_with_their_names_and_receive_requests(discovery: Discovery) -> None:
    effects = discovery.down(registered("B", "C"), 0.0)
    assert [effect for effect in effects if effect == Down(SetPhysical(address("B"), (place("B"),), 1))]
    assert asked(effects) == [place("B"), place("C")]
    assert (discovery.name_of(address("B")), discovery.name_of(address("C"))) == ("B", "C")
    assert asked(discovery.down(registered("B", "C", "D"), 1.0)) == [place("D")], "only who is new"
    assert asked(discovery.down(FindMembers(), 2.0)) == [None, place("H"), place("B"), place("C"), place("D")]
    assert asked(discovery.down(registered("D"), 3.0)) == []
    assert asked(discovery.down(FindMembers(), 4.0)) == [None, place("H"), place("D")]


def test_a_request_for_an_unknown_member_goes_to_registered_members(discovery: Discovery) -> None:
    discovery.down(registered("B"), 0.0)
    assert asked(discovery.up(FindPhysical(address("C")), 1.0)) == [None, place("H"), place("B")]


def test_a_contact_from_a_router_does_not_replace_a_known_contact(discovery: Discovery) -> None:
    discovery.down(registered("B"), 0.0)
    moved = SetRegistered((Contact(address("B"), "X", (place("X"),), 99),))
    effects = discovery.down(moved, 1.0)
    assert not [effect for effect in effects if isinstance(effect, Down) and isinstance(effect.event, SetPhysical)]
    assert discovery.name_of(address("B")) == "B"
    assert asked(effects) == [place("X")], "it may be there, and then says so itself"


def test_no_request_is_sent_before_the_connect_or_to_the_own_address() -> None:
    made = Discovery(local_of("A"), DiscoveryConfig())
    assert asked(made.down(registered("B"), 0.0)) == []
    made.down(Connect((place("A"),)), 0.0)
    assert asked(made.down(FindMembers(), 0.0)) == [None, place("B")]
    mine = SetRegistered((Contact(address("Z"), "Z", (place("A"),), 1),))
    assert asked(made.down(mine, 1.0)) == []


def test_of_a_large_cluster_the_first_ones_are_asked(discovery: Discovery) -> None:
    places = [Physical("host", number) for number in range(1, INITIAL_HOSTS_MAX + 2)]
    many = [Contact(Address(each.port.to_bytes(16, "big")), "B", (each,), 1) for each in places]
    assert asked(discovery.down(SetRegistered(tuple(many)), 0.0)) == places[:INITIAL_HOSTS_MAX]
