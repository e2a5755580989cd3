"""Failure detection, discovery and resolver together, over encoded datagrams: the stories of JGroups' "Logical addresses"."""

from __future__ import annotations

import pytest

from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.discovery.headers import IHave, Invalidate
from sitestack.model.address import Physical
from sitestack.model.events import Left
from sitestack.model.frame import Frame
from tests.harness.addresses import address, place
from tests.harness.hosts import Hosts, contact_of, frame_to
from tests.harness.wire import keep, lose

SEEDS = DiscoveryConfig(initial_hosts=(place("A"), place("B")))


def transcript(group: Hosts) -> list[str]:
    """Return the datagrams on the wire, one a line, without heartbeats."""
    lines = [f"{source} -> {to or 'all'}: {kinds}" for source, to, kinds in group.story() if kinds != "Alive"]
    return lines


def inject(group: Hosts, source: str, dest: str, header: IHave | Invalidate) -> None:
    """Deliver a late copy of a message of `source` to `dest`."""
    codec = group[dest].stack.codec
    frame = codec.encode_frame(Frame(address(source), None, (header,), None, True))
    group[dest].stack.receive(codec.encode_datagram(address(source), None, [frame]), place(source), group.now)


# -- starting ------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-12")
def test_startup_over_udp() -> None:
    """The joiner multicasts a request with its UUID, name and address; each receiver caches it and unicasts its own back."""
    group = Hosts()
    group.site("AB")
    transcript(group)
    group.start("C")
    group.run(0.5)
    assert transcript(group) == [
        "C -> all: WhoIsThere",
        "A -> c:1: IAmHere",
        "B -> c:1: IAmHere",
    ]
    assert group.found("C") == "AB"
    assert [group.knows(name) for name in "ABC"] == ["BC", "AC", "AB"]
    assert group.now < 3.0 + group.discovery.join_wait_s


@pytest.mark.conforms("LA-13", "LA-28", "LA-30")
def test_startup_with_initial_hosts_finds_those_that_are_no_initial_hosts() -> None:
    group = Hosts(multicast=False, discovery=SEEDS)
    for name in "ABCDE":
        group.start(name)
    group.run(2.0)
    for name in "ABCDE":
        assert group.found(name) == "ABCDE".replace(name, "")
        assert group.knows(name) == "ABCDE".replace(name, "")
    group.view(1, "ABCDE")
    group.start("F")
    group.run(2.0)
    assert group.found("F") == "ABCDE"


@pytest.mark.conforms("LA-28", "LA-20")
def test_a_later_joiner_is_known_to_all_once_it_is_in_the_view() -> None:
    group = Hosts(multicast=False, discovery=SEEDS)
    group.site("ABCDE")
    reachable = {place("A"), place("F")}
    group.wire.rule = lose(
        lambda packet: "F" in (packet.source, packet.dest) and not {place(packet.source), packet.to} <= reachable
    )
    group.start("F")
    group.run(2.0)
    assert group.found("F") == "A"
    group.wire.rule = keep
    group.view(2, "ABCDEF")
    group.run(1.0)
    for name in "ABCDEF":
        assert group.knows(name) == "ABCDEF".replace(name, "")


# -- WHO-HAS -------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-9", "LA-10")
@pytest.mark.parametrize("multicast", [True, False])
def test_frames_that_wait_for_an_unknown_member_arrive_in_order_once(multicast: bool) -> None:
    group = Hosts(multicast=multicast, discovery=SEEDS)
    for name in "AB":
        group.start(name)
    group.run(2.0)
    group.start("C", find=False)
    transcript(group)
    for n in range(1, 4):
        group.down("C", frame_to("C", "B", n))
    group.run(1.0)
    assert group.received("B") == [("C", 1), ("C", 2), ("C", 3)]
    lines = transcript(group)
    questions = ["C -> all: WhoHas"] if multicast else []
    assert lines[: len(questions) + 2] == [*questions, "C -> a:1: WhoHas", "C -> b:1: WhoHas"]
    assert "B -> c:1: IHave" in lines


# -- without multicast ---------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-19", "LA-20")
def test_a_view_member_missing_from_the_cache_is_found() -> None:
    group = Hosts(multicast=False, discovery=SEEDS)
    group.start("A")
    group.start("B")
    group.start("C", find=False)
    group.run(2.0)
    inject(group, "C", "A", IHave((contact_of("C", 1),)))
    assert [group.knows(name) for name in "ABC"] == ["BC", "A", ""]
    group.wire.rule = lose(lambda packet: packet.source == "A" and group.now < 2.4)  # the coordinator's message about C is lost
    group.view(1, "ABC")
    group.run(2.0)
    assert [group.knows(name) for name in "ABC"] == ["BC", "AC", "AB"]


# -- leaving -------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-11", "LA-18")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_that_closes_is_forgotten_everywhere(multicast: bool) -> None:
    group = Hosts(multicast=multicast, discovery=SEEDS)
    group.site("ABC")
    group.down("C", Left())
    group.kill("C")
    group.run(0.1)
    assert [group.knows(name) for name in "AB"] == ["B", "A"]
    group.view(2, "AB")
    group.run(0.1)
    inject(group, "B", "A", IHave((contact_of("C", 1_000),)))
    assert group.knows("A") == "B"


@pytest.mark.conforms("LA-5")
@pytest.mark.parametrize("multicast", [True, False])
def test_an_excluded_member_that_lives_can_be_reached_again(multicast: bool) -> None:
    """Both sides hold a tombstone of the other; the newest word of the one looked for wins over it."""
    group = Hosts(multicast=multicast, discovery=SEEDS)
    group.site("ABC")
    group.view(2, "AB", at="AB")
    group.view(2, "C", at="C")
    group.run(1.0)
    assert [group.knows(name) for name in "ABC"] == ["B", "A", ""]
    group.say("A", "C", 1, within=1.0)
    group.say("C", "A", 2, within=1.0)
    assert group.received("C") == [("A", 1)]
    assert group.received("A") == [("C", 2)]


# -- dying, restarting, moving -------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-4", "LA-1")
def test_a_restart_at_the_same_place_does_not_keep_its_predecessor_alive() -> None:
    """Silence tells, as members are known by UUID; and a frame for the predecessor tells at once."""
    group = Hosts()
    group.site("ABC")
    group.kill("C")
    group.start("X", place("C"))
    group.run(0.2)
    group.say("A", "C", 1, within=0.1)
    assert group.suspects("A") == ["C"]
    assert group.suspects("B") == []
    assert group.received("X") == []
    group.run(5.0)
    assert group.suspects("A") == group.suspects("B") == ["C"]
    group.say("A", "X", 2, within=0.1)
    assert group.received("X") == [("A", 2)]


@pytest.mark.conforms("LA-5", "LA-8")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_that_moves_is_followed_though_an_announcement_is_lost(multicast: bool) -> None:
    group = Hosts(multicast=multicast, discovery=SEEDS)
    group.site("ABC")
    begin = group.now
    group.wire.rule = lose(lambda packet: group.now < begin + 0.1)
    group.move("C", Physical("c2", 1))
    group.run(1.0)
    group.say("B", "C", 1, within=5.0)
    assert group.received("C") == [("B", 1)]
    assert [group.suspects(name) for name in "ABC"] == [[], [], []]


@pytest.mark.conforms("LA-6")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_whose_first_interface_dies_is_reached_by_its_second(multicast: bool) -> None:
    group = Hosts(multicast=multicast, discovery=SEEDS)
    first, second = Physical("c1", 1), Physical("c2", 1)
    for name in "AB":
        group.start(name)
    group.start("C", first, second)
    group.run(2.0)
    group.view(1, "ABC")
    group.run(1.0)
    group.wire.rule = lose(lambda packet: packet.to == first)
    group.run(20.0)
    assert [group.suspects(name) for name in "ABC"] == [[], [], []]
    group.story()
    group.say("A", "C", 1, within=0.1)
    assert ("A", second, "data") in group.story() or not group.received("C")
    assert multicast or group.received("C") == [("A", 1)]
