from __future__ import annotations

import pytest

from sitestack.layers.fragment.headers import FragmentHeader
from sitestack.layers.resolver import Resolver, ResolverConfig
from sitestack.model.address import Address, Physical
from sitestack.model.events import (
    FindPhysical,
    RemovePhysical,
    SendAlone,
    SetPhysical,
    TryNextPhysical,
    ViewInstalled,
)
from sitestack.model.frame import Frame
from sitestack.stack.layer import Dropped, Effect, Transmit, TransmitAlone, Up
from tests.harness.addresses import address, local_of, place, view_of
from tests.harness.hosts import frame_to, sent
from tests.harness.messages import drops

A, B, C, D = map(address, "ABCD")
EVERYBODY = Frame(A, None)
SEARCH = Frame(A, None, (), None, True)


def make(config: ResolverConfig | None = None) -> Resolver:
    """The resolver of A, which knows where A is."""
    resolver = Resolver(local_of("A"), config or ResolverConfig())
    resolver.down(SetPhysical(A, (place("A"),), 1), 0.0)
    return resolver


def fan_out() -> Resolver:
    return make(ResolverConfig(multicast=False))


def asked(effects: list[Effect]) -> list[Address]:
    """The members that are looked for."""
    return [each.event.member for each in effects if isinstance(each, Up) and isinstance(each.event, FindPhysical)]


def to_b(n: int, size: int = 8) -> Frame:
    return frame_to("A", "B", n, size)


def set_b(version: int, *places: Physical) -> SetPhysical:
    return SetPhysical(B, places or (place("B"),), version)


@pytest.mark.conforms("LA-26")
def test_no_destination_means_multicast_and_is_one_packet() -> None:
    assert make().down(EVERYBODY, 0.0) == [Transmit(None, EVERYBODY)]


@pytest.mark.conforms("LA-5")
def test_a_frame_for_a_physical_address_bypasses_the_cache() -> None:
    frame = Frame(A, Physical("host", 7), (), None, True)
    assert make().down(frame, 0.0) == [Transmit(Physical("host", 7), frame)]


@pytest.mark.conforms("LA-5", "LA-17")
def test_a_moved_member_is_followed_and_its_older_address_is_refused() -> None:
    resolver = make()
    moved = Physical("b2", 1)
    resolver.down(set_b(1), 0.0)
    assert sent(resolver.down(to_b(1), 0.0)) == [(place("B"), 1)]
    resolver.down(set_b(2, moved), 0.0)
    assert drops(resolver.down(set_b(1), 0.0)) == ["stale_physical"]
    assert sent(resolver.down(to_b(2), 0.0)) == [(moved, 2)]


@pytest.mark.conforms("LA-9", "LA-10")
def test_frames_for_an_unknown_member_wait_and_leave_in_order_once() -> None:
    """A5: what waited leaves neither twice nor in another order."""
    resolver = make()
    assert asked(resolver.down(to_b(1), 0.0)) == [B]
    assert resolver.down(to_b(2), 0.1) == []
    assert sent(resolver.down(set_b(1), 0.2)) == [(place("B"), 1), (place("B"), 2)]
    assert sent(resolver.down(set_b(2), 0.2)) == []
    assert resolver.levels()["queued_bytes"].now == 0
    assert resolver.deadline() is None


@pytest.mark.conforms("LA-9")
def test_an_unknown_member_is_asked_for_once_per_interval() -> None:
    resolver = make()
    questions = asked(resolver.down(to_b(1), 0.0))
    for tick in range(1, 100):
        now = tick / 100
        questions += asked(resolver.down(to_b(1), now)) + asked(resolver.expire(now))
    assert questions == [B, B]


@pytest.mark.conforms("LA-9")
def test_frames_for_an_unresolved_member_are_dropped_and_counted() -> None:
    resolver = make()
    resolver.down(to_b(1), 0.0)
    resolver.down(to_b(2), 0.0)
    reasons: list[str] = []
    while (due := resolver.deadline()) is not None:
        assert due < 10.0
        reasons += drops(resolver.expire(due))
    levels = resolver.levels()
    assert reasons == ["unresolved"]
    assert (levels["queued_bytes"].now, levels["waiting_members"].now) == (0, 0)


@pytest.mark.conforms("LA-9")
def test_the_queue_of_a_member_is_bounded_and_loses_its_oldest() -> None:
    resolver = make(ResolverConfig(queued_frames_max=3))
    effects = [effect for n in range(1, 6) for effect in resolver.down(to_b(n), 0.0)]
    assert drops(effects) == ["unresolved", "unresolved"]
    assert [n for _, n in sent(resolver.down(set_b(1), 0.0))] == [3, 4, 5]


@pytest.mark.conforms("LA-9")
def test_all_queues_together_are_bounded_and_the_longest_wait_loses() -> None:
    resolver = make(ResolverConfig(queued_bytes_max=5_000))
    resolver.down(to_b(1, 2_000), 0.0)
    resolver.down(frame_to("A", "C", 2, 2_000), 0.0)
    assert drops(resolver.down(frame_to("A", "C", 3, 2_000), 0.0)) == ["unresolved"]
    assert sent(resolver.down(set_b(1), 0.0)) == []
    assert [n for _, n in sent(resolver.down(SetPhysical(C, (place("C"),), 1), 0.0))] == [2, 3]
    level = resolver.levels()["queued_bytes"]
    assert level.now == 0
    assert level.high is not None
    assert 4_000 < level.high <= 5_000


def test_a_piece_of_a_large_frame_counts_in_the_queues() -> None:
    resolver = make(ResolverConfig(queued_bytes_max=5_000))
    piece = Frame(A, B, (FragmentHeader(1, 0, 9, bytes(2_000)),))
    effects = [effect for _ in range(3) for effect in resolver.down(piece, 0.0)]
    assert drops(effects) == ["unresolved"]


@pytest.mark.conforms("LA-9")
def test_the_number_of_members_being_resolved_is_bounded() -> None:
    resolver = make(ResolverConfig(waiting_members_max=1))
    assert asked(resolver.down(to_b(1), 0.0)) == [B]
    effects = resolver.down(frame_to("A", "C", 1), 0.0)
    assert (asked(effects), drops(effects)) == ([], ["unresolved"])


@pytest.mark.conforms("LA-19")
def test_without_multicast_each_known_member_gets_one_copy_and_i_get_none() -> None:
    resolver = fan_out()
    assert resolver.down(EVERYBODY, 0.0) == []
    for name in "BC":
        resolver.down(SetPhysical(address(name), (place(name), Physical(f"{name}2", 1)), 1), 0.0)
    assert resolver.down(EVERYBODY, 0.0) == [Transmit(place("B"), EVERYBODY), Transmit(place("C"), EVERYBODY)]


@pytest.mark.conforms("LA-4", "LA-19")
def test_without_multicast_a_non_member_receives_searches_and_no_messages() -> None:
    """Any process may report its place, and name another one's address."""
    resolver = fan_out()
    resolver.down(set_b(1), 0.0)
    resolver.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    resolver.down(SetPhysical(C, (place("C"),), 1), 0.0)
    assert [to for to, _ in sent(resolver.down(EVERYBODY, 0.0))] == [place("B")]
    assert [to for to, _ in sent(resolver.down(SEARCH, 0.0))] == [place("B"), place("C")]
    resolver.up(ViewInstalled(view_of(2, "ABC"), view_of(1, "AB")), 0.0)
    assert [to for to, _ in sent(resolver.down(EVERYBODY, 0.0))] == [place("B"), place("C")]


@pytest.mark.conforms("LA-4")
def test_a_predecessor_at_the_same_place_costs_no_second_copy() -> None:
    resolver = fan_out()
    resolver.down(set_b(1), 0.0)
    resolver.down(SetPhysical(C, (place("B"),), 1), 0.0)
    resolver.down(SetPhysical(D, (place("A"),), 1), 0.0)
    assert resolver.down(EVERYBODY, 0.0) == [Transmit(place("B"), EVERYBODY)]


@pytest.mark.conforms("LA-19")
def test_a_fan_out_asks_for_the_members_of_the_view_until_it_has_them() -> None:
    resolver = fan_out()
    assert asked(resolver.up(ViewInstalled(view_of(1, "ABC"), None), 0.0)) == [B, C]
    resolver.down(set_b(1), 0.1)
    now = 0.0
    for _ in range(40):
        now = resolver.deadline() or 0.0
        assert asked(resolver.expire(now)) == [C]
    assert now > 10.0
    resolver.down(SetPhysical(C, (place("C"),), 1), now)
    assert resolver.deadline() is None
    assert [to for to, _ in sent(resolver.down(EVERYBODY, now))] == [place("B"), place("C")]


@pytest.mark.conforms("LA-9")
def test_a_frame_waits_its_full_time_however_long_the_member_was_looked_for_before() -> None:
    resolver = fan_out()
    resolver.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    for second in range(20):
        resolver.expire(float(second))
    resolver.down(to_b(1), 19.1)
    for now in (19.6, 20.1, 24.0):
        assert drops(resolver.expire(now)) == []
    assert sent(resolver.down(set_b(1), 24.0)) == [(place("B"), 1)]


@pytest.mark.conforms("LA-9")
def test_with_multicast_a_view_starts_no_address_lookup() -> None:
    assert make().up(ViewInstalled(view_of(1, "AB"), None), 0.0) == []


@pytest.mark.conforms("LA-6")
def test_when_an_address_seems_dead_the_next_is_used_and_then_the_first_again() -> None:
    resolver = make()
    first, second = Physical("b1", 1), Physical("b2", 1)
    resolver.down(set_b(1, first, second), 0.0)
    picked = []
    for _ in range(3):
        picked += [to for to, _ in sent(resolver.down(to_b(1), 0.0))]
        resolver.down(TryNextPhysical(B), 0.0)
    assert picked == [first, second, first]


@pytest.mark.conforms("LA-6")
def test_a_failure_of_an_address_that_was_given_up_since_changes_nothing() -> None:
    """Two layers notice a dead address on their own. Both together must not return to it."""
    resolver = make()
    first, second = Physical("b1", 1), Physical("b2", 1)
    resolver.down(set_b(1, first, second), 0.0)
    resolver.down(TryNextPhysical(B, since=1.0), 1.5)
    resolver.down(TryNextPhysical(B, since=1.2), 1.6)
    assert [to for to, _ in sent(resolver.down(to_b(1), 1.6))] == [second]
    resolver.down(TryNextPhysical(B, since=1.7), 2.0)
    assert [to for to, _ in sent(resolver.down(to_b(1), 2.0))] == [first]


@pytest.mark.conforms("LA-11")
def test_a_removed_member_is_not_brought_back_by_an_old_address() -> None:
    resolver = make()
    resolver.down(set_b(3), 0.0)
    resolver.down(RemovePhysical(B), 0.0)
    assert drops(resolver.down(set_b(3), 119.0)) == ["stale_physical"]
    assert asked(resolver.down(to_b(1), 119.0)) == [B]
    assert sent(resolver.down(set_b(4), 119.0)) == [(place("B"), 1)]


@pytest.mark.conforms("LA-11")
def test_a_view_undoes_the_address_removal_of_its_members() -> None:
    resolver = fan_out()
    resolver.down(set_b(3), 0.0)
    resolver.down(RemovePhysical(B), 0.0)
    resolver.down(to_b(1), 0.0)
    assert sent(resolver.up(ViewInstalled(view_of(1, "AB"), None), 0.1)) == [(place("B"), 1)]


@pytest.mark.conforms("LA-5")
def test_the_cache_is_bounded_and_keeps_the_view() -> None:
    resolver = make(ResolverConfig(contacts_max=3, multicast=False))
    resolver.down(set_b(1), 0.0)
    resolver.up(ViewInstalled(view_of(1, "AB"), None), 0.0)
    for number in range(50):
        stranger = Address(number.to_bytes(16, "big"))
        resolver.down(SetPhysical(stranger, (Physical("s", number + 1),), 1), 0.0)
    assert resolver.levels()["contacts"].now == 3
    assert [to for to, _ in sent(resolver.down(SEARCH, 0.0))] == [place("B"), Physical("s", 50)]


def test_nothing_is_sent_to_oneself() -> None:
    assert drops(make().down(frame_to("A", "A", 1), 0.0)) == ["to_self"]


def test_a_frame_that_goes_everywhere_goes_to_each_address_of_its_member() -> None:
    resolver, frame, places = make(), frame_to("A", "B", 1), (place("B"), place("C"))
    assert resolver.down(SendAlone(frame, everywhere=True), 0.0) == [Dropped("unresolved")]
    resolver.down(set_b(1, *places), 0.0)
    assert resolver.down(SendAlone(frame), 0.0) == [TransmitAlone(places[0], frame)]
    assert resolver.down(SendAlone(frame, everywhere=True), 0.0) == [TransmitAlone(each, frame) for each in places]
