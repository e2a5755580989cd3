"""Discovery alone: seeds that change while it runs, as names come to stand for other addresses."""

from __future__ import annotations

import pytest

from sitestack.layers.discovery import INITIAL_HOSTS_MAX, Discovery, DiscoveryConfig
from sitestack.layers.discovery.headers import WhoIsThere
from sitestack.model.address import Physical
from sitestack.model.events import Connect, FindMembers, SetInitialHosts
from sitestack.model.frame import Destination
from sitestack.stack.layer import Down, Effect
from tests.harness.addresses import local_of, place
from tests.harness.hosts import Hosts
from tests.harness.messages import frames_in

HOST = Physical("host", 7)
POD = Physical("pod", 7)


def make(*initial_hosts: Physical) -> Discovery:
    """The discovery of A, which is connected."""
    discovery = Discovery(local_of("A"), DiscoveryConfig(initial_hosts=initial_hosts))
    discovery.down(Connect((place("A"),)), 0.0)
    return discovery


def asked(effects: list[Effect]) -> list[Destination]:
    """Return the destinations of search requests."""
    frames = frames_in(effects, Down)
    assert all(isinstance(frame.headers[-1], WhoIsThere) for frame in frames)
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


@pytest.mark.conforms("LA-13", "LA-19")
def test_a_member_started_before_its_name_resolves_finds_the_others_later() -> None:
    group = Hosts(multicast=False)
    for name in "AB":
        group.start(name)
        group.run(2.0)
        group.view(1, name)
    group.run(5.0)
    assert [group.knows(name) for name in "AB"] == ["", ""]
    group.down("A", SetInitialHosts((place("A"), place("B"))))
    group.run(1.0)
    assert [group.knows(name) for name in "AB"] == ["B", "A"]
