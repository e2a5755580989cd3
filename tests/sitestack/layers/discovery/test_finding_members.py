"""Failure detection, discovery and resolver together, over encoded datagrams: the stories of JGroups' "Logical addresses"."""

from __future__ import annotations

import pytest

from sitestack.layers.discovery import DiscoveryConfig
from sitestack.layers.discovery.headers import IHave, Invalidate
from sitestack.model.address import Physical
from sitestack.model.events import Left, SeenView, Suspect
from sitestack.model.frame import Frame
from tests.sitestack.layers.lower_world import World, address_of, contact_of, frame_to, place_of

SEEDS = DiscoveryConfig(initial_hosts=(place_of("A"), place_of("B")))


def transcript(world: World) -> list[str]:
    """What was on the wire, one line a datagram, heartbeats left out."""
    lines = [f"{source} -> {to or 'all'}: {kinds}" for source, to, kinds in world.wire if kinds != "Alive"]
    world.wire.clear()
    return lines


def inject(world: World, source: str, dest: str, header: IHave | Invalidate) -> None:
    """A late copy of what `source` once said arrives at `dest`."""
    codec = world[dest].stack.codec
    frame = codec.encode_frame(Frame(address_of(source), None, (header,), None, True))
    world[dest].stack.receive(codec.encode_datagram(address_of(source), None, [frame]), place_of(source), world.now)


# -- starting ------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-12")
def test_startup_over_udp() -> None:
    """The joiner multicasts a request with its UUID, name and address; each receiver caches it and unicasts its own back."""
    world = World()
    world.site("AB")
    transcript(world)
    world.start("C")
    world.run(0.5)
    assert transcript(world) == [
        "C -> all: WhoIsThere",
        "A -> c:1: IAmHere",
        "B -> c:1: IAmHere",
    ]
    assert world["C"].found() == "AB"
    assert [world[name].knows() for name in "ABC"] == ["BC", "AC", "AB"]
    assert world.now < 3.0 + world.discovery.join_wait_s


@pytest.mark.conforms("LA-13", "LA-28", "LA-30")
def test_startup_with_initial_hosts_finds_those_that_are_no_initial_hosts() -> None:
    world = World(multicast=False, discovery=SEEDS)
    for name in "ABCDE":
        world.start(name)
    world.run(2.0)
    for name in "ABCDE":
        assert world[name].found() == "ABCDE".replace(name, "")
        assert world[name].knows() == "ABCDE".replace(name, "")
    world.install(1, "ABCDE")
    world.start("F")
    world.run(2.0)
    assert world["F"].found() == "ABCDE"


@pytest.mark.conforms("LA-28", "LA-20")
def test_a_later_joiner_is_known_to_all_once_it_is_in_the_view() -> None:
    world = World(multicast=False, discovery=SEEDS)
    world.site("ABCDE")
    reachable = {place_of("A"), place_of("F")}
    world.drop = lambda source, to, data: "F" in (source, to.host.upper()) and not {place_of(source), to} <= reachable
    world.start("F")
    world.run(2.0)
    assert world["F"].found() == "A"
    world.drop = lambda source, to, data: False
    world.install(2, "ABCDEF")
    world.run(1.0)
    for name in "ABCDEF":
        assert world[name].knows() == "ABCDEF".replace(name, "")


def test_everybody_starts_at_once_and_all_know_the_same_candidates() -> None:
    world = World()
    for name in "DBCA":
        world.start(name)
        world.run(0.01)
    world.run(2.0)
    assert [world[name].found() for name in "ABCD"] == ["BCD", "ACD", "ABD", "ABC"]


def test_lost_requests_and_answers_are_made_good_by_the_next() -> None:
    world = World()
    world.site("AB")
    world.drop = lambda source, to, data: world.now < 2.9
    world.start("C")
    world.run(0.3)
    world.drop = lambda source, to, data: False
    world.run(1.0)
    assert world["C"].found() == "AB"


# -- WHO-HAS -------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-9", "LA-10")
@pytest.mark.parametrize("multicast", [True, False])
def test_what_waits_for_an_unknown_member_arrives_in_order_once(multicast: bool) -> None:
    world = World(multicast=multicast, discovery=SEEDS)
    for name in "AB":
        world.start(name)
    world.run(2.0)
    world.start("C", find=False)
    transcript(world)
    for n in range(1, 4):
        world.down("C", frame_to("C", "B", n))
    world.run(1.0)
    assert world["B"].received == [("C", 1), ("C", 2), ("C", 3)]
    lines = transcript(world)
    questions = ["C -> all: WhoHas"] if multicast else []
    assert lines[: len(questions) + 2] == [*questions, "C -> a:1: WhoHas", "C -> b:1: WhoHas"]
    assert "B -> c:1: IHave" in lines


def test_who_has_is_asked_again_when_it_is_lost_and_given_up_in_the_end() -> None:
    world = World()
    world.start("A", find=False)
    world.down("A", frame_to("A", "B", 1))
    world.run(60.0)
    assert transcript(world) == ["A -> all: WhoHas"] * 10
    assert world["A"].stack.drops == {"unresolved": 1}


def test_a_member_known_to_one_other_only_is_found_through_it() -> None:
    world = World(multicast=False, discovery=DiscoveryConfig(initial_hosts=(place_of("C"),)))
    for name in "ABC":
        world.start(name, find=False)
    inject(world, "B", "C", IHave((contact_of("B", 1),)))
    world.down("A", frame_to("A", "B", 1))
    world.run(1.0)
    assert world["B"].received == [("A", 1)]


# -- without multicast ---------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-19")
def test_a_multicast_without_multicast_is_one_copy_for_each_other_member() -> None:
    world = World(multicast=False, discovery=SEEDS)
    world.site("ABCDE")
    world.wire.clear()
    world.down("C", Frame(address_of("C"), None, (), frame_to("C", "A", 1).batch, True))
    world.run(0.01)
    assert sorted(str(to) for source, to, kinds in world.wire if kinds == "data") == ["a:1", "b:1", "d:1", "e:1"]
    assert [world[name].received for name in "ABDE"] == [[("C", 1)]] * 4


@pytest.mark.conforms("LA-19", "LA-20")
def test_who_is_missing_from_the_cache_is_found_because_it_is_in_the_view() -> None:
    world = World(multicast=False, discovery=SEEDS)
    world.start("A")
    world.start("B")
    world.start("C", find=False)
    world.run(2.0)
    inject(world, "C", "A", IHave((contact_of("C", 1),)))
    assert [world[name].knows() for name in "ABC"] == ["BC", "A", ""]
    world.drop = lambda source, to, data: source == "A" and world.now < 2.4  # what the coordinator says of C is lost
    world.install(1, "ABC")
    world.run(2.0)
    assert [world[name].knows() for name in "ABC"] == ["BC", "AC", "AB"]


# -- leaving -------------------------------------------------------------------------------------------------------------


@pytest.mark.conforms("LA-11", "LA-18")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_that_closes_is_forgotten_everywhere(multicast: bool) -> None:
    world = World(multicast=multicast, discovery=SEEDS)
    world.site("ABC")
    world.down("C", Left())
    world.kill("C")
    world.run(0.1)
    assert [world[name].knows() for name in "AB"] == ["B", "A"]
    world.install(2, "AB")
    world.run(0.1)
    inject(world, "B", "A", IHave((contact_of("C", 1_000),)))
    assert world["A"].knows() == "B"


@pytest.mark.conforms("LA-11")
def test_the_coordinator_invalidates_a_crashed_member_for_those_who_were_not_in_its_view() -> None:
    world = World()
    world.site("ABC")
    world.start("D")
    world.run(0.5)
    world.kill("C")
    world.install(2, "ABD")
    world.run(0.1)
    assert [world[name].knows() for name in "ABD"] == ["BD", "AD", "AB"]


@pytest.mark.conforms("LA-11")
def test_a_late_invalidate_does_not_hurt_a_member_that_came_back() -> None:
    world = World()
    view = world.site("ABC")
    world.install(2, "AB")
    world.run(0.1)
    assert world["B"].knows() == "A"
    world["C"].view = view
    world.install(3, "ABC")
    world.run(0.1)
    inject(world, "A", "B", Invalidate(address_of("C"), 1))
    assert world["B"].knows() == "AC"
    world.down("B", frame_to("B", "C", 1))
    world.run(0.1)
    assert world["C"].received == [("B", 1)]


@pytest.mark.parametrize("multicast", [True, False])
def test_an_excluded_member_that_lives_can_be_reached_again(multicast: bool) -> None:
    """Both sides hold a tombstone of the other; the newest word of the one looked for wins over it."""
    world = World(multicast=multicast, discovery=SEEDS)
    world.site("ABC")
    world.install(2, "AB", at="AB")
    world.install(2, "C", at="C")
    world.run(1.0)
    assert [world[name].knows() for name in "ABC"] == ["B", "A", ""]
    world.down("A", frame_to("A", "C", 1))
    world.run(1.0)
    world.down("C", frame_to("C", "A", 2))
    world.run(1.0)
    assert world["C"].received == [("A", 1)]
    assert world["A"].received == [("C", 2)]


# -- dying, restarting, moving -------------------------------------------------------------------------------------------


def test_a_crash_is_noticed_by_all_and_nobody_else_is_suspected() -> None:
    world = World()
    world.site("ABC")
    world.kill("C")
    world.run(5.0)
    assert [world[name].suspects() for name in "AB"] == [["C"], ["C"]]


@pytest.mark.conforms("LA-4", "LA-1")
def test_a_restart_at_the_same_place_does_not_keep_its_predecessor_alive() -> None:
    """Silence tells, as members are known by UUID; and a frame for the predecessor tells at once."""
    world = World()
    world.site("ABC")
    world.kill("C")
    world.start("X", place_of("C"))
    world.run(0.2)
    world.down("A", frame_to("A", "C", 1))
    world.run(0.1)
    assert world["A"].suspects() == ["C"]
    assert world["B"].suspects() == []
    assert world["X"].received == []
    world.run(5.0)
    assert world["A"].suspects() == world["B"].suspects() == ["C"]
    world.down("A", frame_to("A", "X", 2))
    world.run(0.1)
    assert world["X"].received == [("A", 2)]


@pytest.mark.conforms("LA-5", "LA-8")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_that_moves_is_followed_though_an_announcement_is_lost(multicast: bool) -> None:
    world = World(multicast=multicast, discovery=SEEDS)
    world.site("ABC")
    begin = world.now
    world.drop = lambda source, to, data: world.now < begin + 0.1
    world.move("C", Physical("c2", 1))
    world.run(1.0)
    world.down("B", frame_to("B", "C", 1))
    world.run(5.0)
    assert world["C"].received == [("B", 1)]
    assert [world[name].suspects() for name in "ABC"] == [[], [], []]


@pytest.mark.conforms("LA-6")
@pytest.mark.parametrize("multicast", [True, False])
def test_a_member_whose_first_interface_dies_is_reached_by_its_second(multicast: bool) -> None:
    world = World(multicast=multicast, discovery=SEEDS)
    first, second = Physical("c1", 1), Physical("c2", 1)
    for name in "AB":
        world.start(name)
    world.start("C", first, second)
    world.run(2.0)
    world.install(1, "ABC")
    world.run(1.0)
    world.drop = lambda source, to, data: to == first
    world.run(20.0)
    assert [world[name].suspects() for name in "ABC"] == [[], [], []]
    world.wire.clear()
    world.down("A", frame_to("A", "C", 1))
    world.run(0.1)
    assert ("A", second, "data") in world.wire or not world["C"].received
    assert multicast or world["C"].received == [("A", 1)]


def test_the_heartbeat_of_a_member_with_another_view_is_reported() -> None:
    world = World()
    view = world.site("ABC")
    newer = world.install(2, "AB", at="AB")
    world.run(1.0)
    seen = [event for event in world["C"].events if isinstance(event, SeenView)]
    assert seen[0] == SeenView(address_of("A"), newer.id)
    assert SeenView(address_of("C"), view.id) in world["A"].events


def test_who_left_is_no_longer_watched() -> None:
    world = World()
    world.site("ABC")
    world.down("C", Left())
    world.kill("C")
    world.install(2, "AB")
    world.run(10.0)
    assert not [event for name in "AB" for event in world[name].events if isinstance(event, Suspect)]


def test_the_same_run_puts_the_same_bytes_on_the_wire() -> None:
    def run() -> list[tuple[str, Physical | None, str]]:
        world = World(multicast=False, discovery=SEEDS)
        world.site("ABCDE")
        world.kill("E")
        world.run(5.0)
        world.install(2, "ABCD")
        world.run(5.0)
        return world.wire

    assert run() == run()
