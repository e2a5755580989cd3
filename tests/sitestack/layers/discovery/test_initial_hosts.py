"""Discovery alone: whom it asks. Seeds change while it runs, as names come to stand for other addresses, and routers name
members.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from sitestack.layers.discovery import INITIAL_HOSTS_MAX, Discovery, DiscoveryConfig
from sitestack.layers.discovery.headers import WhoHas, WhoIsThere
from sitestack.layers.discovery.search import Search
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import Connect, FindMembers, FindPhysical, Found, Peer, SetInitialHosts, SetPhysical, SetRegistered
from sitestack.model.frame import Destination
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address, local_of, place
from tests.harness.casters import V1, A, B, C
from tests.harness.hosts import contact_of
from tests.harness.messages import frames_in

HOST = Physical("host", 7)
POD = Physical("pod", 7)


def make(*initial_hosts: Physical) -> Discovery:
    """The discovery of A, which is connected."""
    discovery = Discovery(local_of("A"), DiscoveryConfig(initial_hosts=initial_hosts))
    discovery.down(Connect((place("A"),)), 0.0)
    return discovery


def asked(effects: list[Effect]) -> list[Destination]:
    """Return the destinations of requests."""
    frames = frames_in(effects, Down)
    assert all(isinstance(frame.headers[-1], WhoIsThere | WhoHas) for frame in frames)
    return [frame.dest for frame in frames]


@pytest.mark.conforms("LA-13")
def test_new_initial_hosts_are_asked_at_once_and_all_of_them_by_the_next_search() -> None:
    discovery = make(HOST)
    pods = (place("A"), HOST, POD)
    assert asked(discovery.down(SetInitialHosts(pods), 0.0)) == [POD]
    assert discovery.down(SetInitialHosts(pods), 0.0) == []
    assert asked(discovery.down(FindMembers(), 0.0)) == [None, *pods]
    discovery.down(SetInitialHosts((POD,)), 0.0)
    assert asked(discovery.down(FindMembers(), 0.0)) == [None, POD]


def test_initial_hosts_before_the_connect_wait_for_the_search() -> None:
    discovery = Discovery(local_of("A"), DiscoveryConfig())
    assert discovery.down(SetInitialHosts((HOST,)), 0.0) == []
    discovery.down(Connect((place("A"),)), 0.0)
    assert asked(discovery.down(FindMembers(), 0.0)) == [None, HOST]


def test_requests_go_only_to_the_first_addresses_of_a_name_with_too_many() -> None:
    many = tuple(Physical("pod", port) for port in range(1, INITIAL_HOSTS_MAX + 2))
    assert asked(make().down(SetInitialHosts(many), 0.0)) == list(many[:INITIAL_HOSTS_MAX])


# -- members that routers name, and what a search keeps -------------------------------------------------------------------


@pytest.mark.conforms("LA-1")
def test_all_processes_of_one_name_are_found() -> None:
    """A10: a name is for display, and the UUID decides."""
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


@pytest.mark.conforms("LA-14", "LA-17")
def test_registered_members_are_cached_with_their_names_and_receive_requests() -> None:
    discovery = make(place("H"))
    effects = discovery.down(registered("B", "C"), 0.0)
    assert [effect for effect in effects if effect == Down(SetPhysical(address("B"), (place("B"),), 1))]
    assert asked(effects) == [place("B"), place("C")]
    assert (discovery.name_of(address("B")), discovery.name_of(address("C"))) == ("B", "C")
    assert asked(discovery.down(registered("B", "C", "D"), 1.0)) == [place("D")], "only who is new"
    assert asked(discovery.down(FindMembers(), 2.0)) == [None, place("H"), place("B"), place("C"), place("D")]
    assert asked(discovery.down(registered("D"), 3.0)) == []
    assert asked(discovery.down(FindMembers(), 4.0)) == [None, place("H"), place("D")]


def test_a_request_for_an_unknown_member_goes_to_registered_members() -> None:
    discovery = make(place("H"))
    discovery.down(registered("B"), 0.0)
    assert asked(discovery.up(FindPhysical(address("C")), 1.0)) == [None, place("H"), place("B")]


def test_a_contact_from_a_router_does_not_replace_a_known_contact() -> None:
    discovery = make(place("H"))
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


def test_of_a_large_cluster_the_first_ones_are_asked() -> None:
    discovery = make(place("H"))
    places = [Physical("host", number) for number in range(1, INITIAL_HOSTS_MAX + 2)]
    many = [Contact(Address(each.port.to_bytes(16, "big")), "B", (each,), 1) for each in places]
    assert asked(discovery.down(SetRegistered(tuple(many)), 0.0)) == places[:INITIAL_HOSTS_MAX]
