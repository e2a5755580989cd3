"""Harm meets the right member: roles are resolved when the harm is done, and undone at the harmed member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from relay_lab.drills.executor import Executor, MemberDied, Pair, Status
from relay_lab.drills.plan import Action, Drill, Seat
from relay_lab.drills.sites import NotReady, Sites

A, B, C, D, E, F = (Seat("NYC" if name < "D" else "SFO", name) for name in "ABCDEF")


class FakePlace(Executor):
    """An executor that only records. The first present member of each site relays, and all present members see each
    other.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.there: list[Seat] = []
        #: How long it takes to join.
        self.join_s = 0.0
        self.joined: dict[Seat, float] = {}
        self.done: list[tuple[Any, ...]] = []
        self.links: dict[tuple[str, str], str] = {}

    async def start(self, seat: Seat) -> None:
        self.there.append(seat)
        self.joined[seat] = trio.current_time() + self.join_s
        self.done.append(("start", seat.name))

    async def upgrade(self, seat: Seat) -> None:
        await self.start(seat)
        self.done.append(("upgrade", seat.name))

    async def feed(self, seat: Seat, lines: bytes) -> None:
        if seat not in self.there:
            raise MemberDied(f"{seat.name} is gone")
        self.done.append(("feed", seat.name, lines))

    async def status(self, seat: Seat) -> Status | None:
        if seat not in self.there:
            raise MemberDied(f"{seat.name} is gone")
        ours = [each.name for each in self.there if each.site == seat.site]
        sites = {site: [each.name for each in self.there if each.site == site] for site in ("NYC", "SFO")}
        role = "relay" if ours[0] == seat.name else "member"
        state = "member" if trio.current_time() >= self.joined[seat] else "joining"
        return {"state": state, "role": role, "view": {"members": ours}, "global_view": {"sites": sites}}

    async def kill(self, seat: Seat) -> None:
        self.there.remove(seat)
        self.done.append(("kill", seat.name))

    async def pause(self, seat: Seat) -> None:
        self.there.remove(seat)
        self.done.append(("pause", seat.name))

    async def resume(self, seat: Seat) -> None:
        self.there.append(seat)
        self.done.append(("resume", seat.name))

    async def leave(self, seat: Seat, grace_s: float) -> str:
        self.there.remove(seat)
        self.done.append(("leave", seat.name))
        return "C was late." if seat == C else ""

    async def block(self, seat: Seat) -> None:
        self.done.append(("block", seat.name))

    async def unblock(self, seat: Seat) -> None:
        self.done.append(("unblock", seat.name))

    async def stop_reader(self, seat: Seat) -> None:
        self.there.remove(seat)
        self.done.append(("stop reader", seat.name))

    async def fill_disk(self, seat: Seat) -> None:
        self.done.append(("fill", seat.name))

    async def free_disk(self, seat: Seat) -> None:
        self.done.append(("free", seat.name))

    async def harm_links(self, pairs: Sequence[Pair], do: str, amount: float) -> None:
        for source, destination in pairs:
            self.links[source.name, destination.name] = do


@pytest.fixture
async def sites() -> Sites:
    made = Sites(Drill(name="mine"), FakePlace())
    await made.start()
    return made


def place_of(sites: Sites) -> FakePlace:
    place = sites._executor
    assert isinstance(place, FakePlace)
    return place


async def test_the_first_of_each_site_starts_first_and_relays(sites: Sites) -> None:
    assert [name for _, name in place_of(sites).done] == ["A", "D", "B", "E", "C", "F"]


async def test_a_role_is_looked_up_when_the_harm_is_done(sites: Sites) -> None:
    assert await sites.act(Action("kill", target="NYC.relay")) == "A"
    assert await sites.act(Action("kill", target="NYC.relay")) == "B"
    assert sites.of("NYC") == [C]
    assert await sites.act(Action("leave", target="SFO.second")) == "E"
    assert await sites.act(Action("leave", target="SFO.member")) == "F"
    assert sites.survivors() == [C, D]
    assert list(sites.touched) == [A, B, E, F]


async def test_a_resume_by_role_continues_the_paused_member(sites: Sites) -> None:
    assert await sites.act(Action("pause", target="NYC.relay")) == "A"
    assert A in sites.survivors()
    assert A not in await sites.statuses()
    assert await sites.act(Action("resume", target="NYC.relay")) == "A"
    assert list(sites.apart) == [A]


async def test_a_restart_ends_and_starts_and_a_dead_member_is_only_started(sites: Sites) -> None:
    await sites.act(Action("restart", target="NYC.B"))
    await sites.act(Action("kill", target="NYC.C"))
    await sites.act(Action("restart", target="NYC.C"))
    assert place_of(sites).done[6:] == [("leave", "B"), ("start", "B"), ("kill", "C"), ("start", "C")]


async def test_an_upgrade_ends_and_starts_another_release(sites: Sites) -> None:
    await sites.act(Action("upgrade", target="NYC.B"))
    assert place_of(sites).done[6:] == [("leave", "B"), ("start", "B"), ("upgrade", "B")]
    assert await place_of(sites).status(B) is not None


async def test_a_start_does_not_wait_and_a_joined_member_counts_as_running(
    autojump_clock: trio.testing.MockClock, sites: Sites
) -> None:
    await sites.act(Action("leave", target="NYC.B"))
    place_of(sites).join_s = 5.0
    assert await sites.act(Action("start", target="NYC.B")) == "B"
    assert (sites.of("NYC"), B in sites.survivors()) == ([A, C], True)
    await trio.sleep(6)
    await sites.statuses()
    assert sites.of("NYC") == [A, B, C]
    await sites.act(Action("start", target="NYC.A"))
    assert sites.problems == ["A of NYC was to be started, and had not ended."]


async def test_a_restarted_member_that_cannot_join_is_a_problem_of_the_run(
    autojump_clock: trio.testing.MockClock, sites: Sites, nursery: trio.Nursery
) -> None:
    place_of(sites).join_s = 60.0
    nursery.start_soon(sites.act, Action("restart", target="NYC.C"))
    await trio.sleep(2)
    place_of(sites).there.remove(C)
    await trio.sleep(2)
    assert (sites.problems, sites.survivors(), sites.of("NYC")) == (["C was late.", "C is gone"], [A, B, D, E, F], [A, B])


async def test_a_joining_member_is_no_sender(
    autojump_clock: trio.testing.MockClock, sites: Sites, nursery: trio.Nursery
) -> None:
    place_of(sites).join_s = 5.0
    nursery.start_soon(sites.act, Action("restart", target="NYC.C"))
    await trio.sleep(2)
    assert C in sites.survivors()
    assert sites.sender_of("NYC") == B
    await trio.sleep(4)
    assert sites.sender_of("NYC") == C


async def test_a_link_between_sites_is_all_pairs_of_their_members(sites: Sites) -> None:
    await sites.act(Action("cut", link="NYC > SFO"))
    assert set(place_of(sites).links) == {(one, other) for one in "ABC" for other in "DEF"}
    assert not sites.touched


async def test_a_member_that_is_cut_off_from_its_site_is_apart_and_the_others_are_a_site_as_before(sites: Sites) -> None:
    await sites.act(Action("cut", link="NYC.relay - NYC"))
    assert place_of(sites).links == dict.fromkeys([("A", "B"), ("A", "C"), ("B", "A"), ("C", "A")], "cut")
    assert list(sites.apart) == list(sites.touched) == [A]
    await sites.act(Action("kill", target="NYC.A"))
    await sites.act(Action("heal", link="NYC.relay - NYC"))
    assert set(place_of(sites).links.values()) == {"heal"}


async def test_both_members_of_a_cut_link_are_apart_and_a_third_one_is_not(sites: Sites) -> None:
    await sites.act(Action("cut", link="NYC.B > NYC.C"))
    assert place_of(sites).links == {("B", "C"): "cut"}
    assert list(sites.apart) == [B, C]
    await sites.act(Action("lose", link="SFO - SFO", amount=0.1))
    assert list(sites.apart) == [B, C, D, E, F]


async def test_a_blocked_member_survives_and_one_without_a_reader_is_expected_to_end(sites: Sites) -> None:
    assert await sites.act(Action("block", target="NYC.relay")) == "A"
    assert (A in sites.survivors(), sites.if_there(A)) == (True, A)
    assert await sites.act(Action("unblock", target="NYC.relay")) == "A"
    assert sites.of("NYC") == [A, B, C]
    assert await sites.act(Action("stop-reader", target="NYC.C")) == "C"
    assert (sites.sender_of("NYC"), sites.if_there(C)) == (B, None)
    assert C not in sites.survivors()
    assert list(sites.apart) == [A, C]
    assert place_of(sites).done[-3:] == [("block", "A"), ("unblock", "A"), ("stop reader", "C")]


async def test_whose_disk_was_full_is_remembered(sites: Sites) -> None:
    await sites.act(Action("fill-disk", target="SFO.relay"))
    await sites.act(Action("free-disk", target="SFO.relay"))
    assert list(sites.full) == [D]
    assert place_of(sites).done[-2:] == [("fill", "D"), ("free", "D")]


async def test_the_sender_is_the_last_one_that_runs(sites: Sites) -> None:
    assert sites.sender_of("NYC") == C
    await sites.act(Action("kill", target="NYC.C"))
    assert sites.sender_of("NYC") == B
    await sites.feed(C, [b"nobody is told, and nothing is raised"])
    await sites.feed(B, [b"1", b"2"])
    assert place_of(sites).done[-1] == ("feed", "B", b"1\n2\n")


async def test_an_unexpected_death_raises(sites: Sites) -> None:
    place_of(sites).there.remove(B)
    with pytest.raises(MemberDied, match="B is gone"):
        await sites.feed(B, [b"1"])
    with pytest.RaisesGroup(pytest.RaisesExc(MemberDied)):
        await sites.statuses()


async def test_the_wait_for_a_role_without_a_holder_times_out(autojump_clock: trio.testing.MockClock, sites: Sites) -> None:
    for name in "ABC":
        await sites.act(Action("kill", target=f"NYC.{name}"))
    with pytest.raises(NotReady, match="There has been no relay for NYC"):
        await sites.act(Action("kill", target="NYC.relay"))
