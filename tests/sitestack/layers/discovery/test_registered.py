"""Discovery alone: members that are registered at a gossip router are learnt of and asked, and correct nothing."""

from __future__ import annotations

import pytest

from sitestack.layers.discovery import INITIAL_HOSTS_MAX, Discovery, DiscoveryConfig
from sitestack.model.address import Address, Physical
from sitestack.model.address_cache import Contact
from sitestack.model.events import Connect, FindMembers, FindPhysical, SetPhysical, SetRegistered
from sitestack.model.frame import Destination
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import address, local_of, place
from tests.harness.messages import frames_in


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
def test_who_is_registered_goes_into_the_cache_with_its_name_and_is_asked_as_usual(discovery: Discovery) -> None:
    effects = discovery.down(registered("B", "C"), 0.0)
    assert [effect for effect in effects if effect == Down(SetPhysical(address("B"), (place("B"),), 1))]
    assert asked(effects) == [place("B"), place("C")]
    assert (discovery.name_of(address("B")), discovery.name_of(address("C"))) == ("B", "C")
    assert asked(discovery.down(registered("B", "C", "D"), 1.0)) == [place("D")], "only who is new"
    assert asked(discovery.down(FindMembers(), 2.0)) == [None, place("H"), place("B"), place("C"), place("D")]
    assert asked(discovery.down(registered("D"), 3.0)) == []
    assert asked(discovery.down(FindMembers(), 4.0)) == [None, place("H"), place("D")]


def test_who_is_looked_for_is_asked_of_those_that_are_registered(discovery: Discovery) -> None:
    discovery.down(registered("B"), 0.0)
    assert asked(discovery.up(FindPhysical(address("C")), 1.0)) == [None, place("H"), place("B")]


def test_what_a_router_says_corrects_nothing_that_is_known(discovery: Discovery) -> None:
    discovery.down(registered("B"), 0.0)
    moved = SetRegistered((Contact(address("B"), "X", (place("X"),), 99),))
    effects = discovery.down(moved, 1.0)
    assert not [effect for effect in effects if isinstance(effect, Down) and isinstance(effect.event, SetPhysical)]
    assert discovery.name_of(address("B")) == "B"
    assert asked(effects) == [place("X")], "it may be there, and then says so itself"


def test_before_the_connect_nobody_is_asked_and_i_am_not_asked_at_all() -> None:
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
