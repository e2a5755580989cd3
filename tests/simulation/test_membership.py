"""Membership as stories: processes join, leave, die and come back, and the members agree on each view."""

from __future__ import annotations

from functools import partial

import pytest

from relay_lab.sim import network_faults
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from sitestack.config import SiteConfig
from sitestack.journal import records
from sitestack.layers.failure_detection import FailureDetectionConfig
from sitestack.layers.membership import MembershipStatistics
from sitestack.layers.membership.headers import Commit, FlushRequest, Installed, JoinRequest, Prepare, SuspectReport
from sitestack.model.frame import Header
from sitestack.promises import History
from sitestack.promises.history import Fate
from tests.harness.messages import present
from tests.harness.script import Script, site_maker
from tests.harness.stories import assert_sound, site, verdict
from tests.harness.thinned import one_in

CONFIG = SiteConfig(site="NYC")


def world_of(seed: int, *names: str) -> tuple[World, list[Process]]:
    """A formed site."""
    world = World(seed, site_maker(CONFIG))
    processes = [world.spawn("NYC", name) for name in names]
    assert world.run_until(lambda: world.settled("NYC", processes), 20.0)
    return world, processes


def formed(seed: int, names: str, *shown: type[Header]) -> Script:
    """A story of a formed site."""
    script = Script(World(seed, site_maker(CONFIG)), *shown)
    script.site("NYC", *names)
    return script


def membership(process: Process) -> MembershipStatistics:
    statistics = process.stack.statistics()["membership"]
    assert isinstance(statistics, MembershipStatistics)
    return statistics


def blocked(process: Process) -> bool:
    return process.stack.levels()["membership.blocked"].now > 0


def views(process: Process) -> list[str]:
    return [str(len(record.members)) for record in process.records if isinstance(record, records.View)]


def say(process: Process, text: str) -> None:
    process.send(text.encode())


@pytest.mark.parametrize("seed", one_in(5, range(5)))
def test_thirty_processes_that_start_at_once_form_one_view_in_few_steps(seed: int) -> None:
    """F38: a join storm is collected into few views, and the view is larger than a datagram (A14)."""
    world, processes = world_of(seed, *[f"P{n}" for n in range(30)])
    assert len(views(processes[0])) <= 6
    assert sum(membership(p).merges_started for p in processes) == 0, "one founds the site, the others join"
    assert_sound(world)


def test_the_coordinator_leaves_under_load_and_nothing_is_missing() -> None:
    """F40, SEQ-20: the leaver leads its own flush and goes when all others have installed the view."""
    world, (a, b, c) = world_of(1, "A", "B", "C")
    coordinator = present(world.coordinator("NYC"))
    others = [p for p in (a, b, c) if p is not coordinator]
    for n in range(60):
        for p in (a, b, c):
            world.schedule.after(n * 0.01, partial(say, p, str(n)))
    world.network.faults.append(network_faults.loss(0.2))
    world.schedule.after(0.3, coordinator.leave)
    world.run(2.5)
    world.network.faults.clear()
    world.run(2.5)
    assert coordinator.left
    assert world.settled("NYC", others)
    assert_sound(world)
    assert not any(p.stack.drops.get("uncertain_at_stop") for p in world.processes)


def test_a_leaving_coordinator_goes_as_soon_as_all_have_installed() -> None:
    world, _ = world_of(1, "A", "B", "C")
    coordinator = present(world.coordinator("NYC"))
    coordinator.leave()
    assert world.run_until(lambda: coordinator.left, 1.0)


@pytest.mark.parametrize("seed", one_in(4, range(8)))
def test_a_leaving_coordinator_stays_until_all_have_installed(seed: int) -> None:
    """A11: otherwise a lost commit would leave the others blocked until they find out that it is gone."""
    world, processes = world_of(seed, "A", "B", "C")
    coordinator = present(world.coordinator("NYC"))
    others = [p for p in processes if p is not coordinator]
    world.network.faults.append(network_faults.loss(0.35))
    coordinator.leave()
    assert world.run_until(lambda: world.settled("NYC", others), 2.9)
    assert sum(membership(p).flushes_started for p in others) == 0


def test_all_leave_at_once() -> None:
    world, processes = world_of(2, "A", "B", "C", "D")
    for process in processes:
        process.leave()
    world.run(10.0)
    assert all(process.left for process in processes)
    assert_sound(world)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["join", "exclude"])
@pytest.mark.parametrize("victim", one_in(2, ["leader", "next"]))
def test_a_death_at_any_datagram_of_a_view_change_leaves_one_agreed_view(change: str, victim: str) -> None:
    """S5, S6, S13, A12: prepare and commit leave nothing undecided, wherever they are cut off."""
    for datagrams in range(24):
        world, processes = world_of(datagrams, "A", "B", "C", "D")
        coordinator = present(world.coordinator("NYC"))
        assert coordinator.view is not None
        by_rank = {p.local.address: p for p in processes}
        ranked = [by_rank[m] for m in coordinator.view.members]
        for n in range(12):
            for p in processes:
                world.schedule.after(n * 0.02, partial(say, p, str(n)))
        world.network.faults.append(network_faults.loss(0.15))  # so that survivors hold different messages
        world.run(0.1)
        dying = ranked[0] if victim == "leader" else ranked[1]
        dying.dies_after = datagrams
        if change == "join":
            world.spawn("NYC", "E")
        else:
            ranked[3].kill()
        world.run(1.0)
        dying.kill()
        living = world.alive()
        assert world.run_until(partial(world.settled, "NYC", living), 10.0), datagrams
        world.network.faults.clear()
        world.run(5.0)
        assert_sound(world)


@pytest.mark.parametrize(("late", "early"), [("C", "B"), ("B", "C")])
def test_a_leader_that_dies_after_committing_to_one_member_has_decided_for_all(late: str, early: str) -> None:
    """A member that has installed a view proves that the others are ready for it: they install that first, then the next."""
    script = formed(3, "ABC", JoinRequest, FlushRequest, Prepare, Commit)
    held = script.hold("A", late, Commit)
    script.start("NYC", "D")
    assert script.world.run_until(lambda: views(script[early])[-1] == "4", 10.0)
    script[early].send(b"in the new view")
    script.run(0.05)
    assert [views(script[name])[-1] for name in (early, late)] == ["4", "3"]
    script.kill("A")
    held.stop()
    survivors = [script[name] for name in "BCD"]
    assert script.world.run_until(lambda: script.world.settled("NYC", survivors), 20.0)
    script.run(2.0)
    assert views(script[late])[-3:] == ["3", "4", "3"], "it installs what the other had installed, then the view without A"
    assert_sound(script.world)


@pytest.mark.conforms("SEQ-20")
@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_the_halves_of_a_split_become_one_view_that_names_them(seed: int) -> None:
    """M1, M3: one merge view, its counter above all, with the subgroups; nothing of one half leaks into the other."""
    world, processes = world_of(seed, "A", "B", "C", "D", "E")
    left, right = frozenset(p.physical.host for p in processes[:2]), frozenset(p.physical.host for p in processes[2:])
    world.network.cuts += [(left, right), (right, left)]
    assert world.run_until(lambda: world.settled("NYC", processes[:2]) and world.settled("NYC", processes[2:]), 20.0)
    for p in processes:
        p.send(p.local.name.encode())
    world.run(1.0)
    world.network.cuts.clear()
    assert world.run_until(lambda: world.settled("NYC", processes), 40.0)
    merged = present(processes[0].view)
    assert sorted(len(sub.members) for sub in merged.subviews) == [2, 3]
    assert all(merged.id.counter > sub.id.counter for sub in merged.subviews)
    for p in processes:
        p.send(b"together again")
    world.run(3.0)
    assert_sound(world)
    assert all(len(views(p)) <= 5 for p in processes)


@pytest.mark.conforms("LA-20")
def test_isolated_founders_form_one_site_once_they_reach_each_other() -> None:
    """A13: five founders that did not hear each other at the start are one site soon after they do: when each looks again."""
    world = World(9, site_maker(CONFIG))
    hosts = [frozenset({f"10.0.0.{n + 2}"}) for n in range(5)]
    world.network.cuts += [(a, b) for a in hosts for b in hosts if a != b]
    processes = [world.spawn("NYC", f"P{n}") for n in range(5)]
    world.run(5.0)
    assert [p.view is not None and len(p.view.members) for p in processes] == [1] * 5
    world.network.cuts.clear()
    assert world.run_until(lambda: world.settled("NYC", processes), CONFIG.membership.merge.look_interval_s)
    assert_sound(world)


# -- a coordinator that leaves decides nothing after it has committed the view without itself ------------------------------


def test_a_joiner_that_asks_a_departed_coordinator_is_admitted_by_the_next_one() -> None:
    """Otherwise the leaver would begin a second line of views, with the joiner alone, in the lineage of its old site."""
    script = formed(4, "AB", JoinRequest, Installed)
    asking = script.hold("C", "A", JoinRequest)
    script.start("NYC", "C")
    script.until(lambda: bool(asking.packets), "C asks A")
    confirming = script.hold("B", "A", Installed)
    script["A"].leave()
    script.until(lambda: views(script["B"])[-1] == "1", "B goes on without A")
    script.release(asking)
    script.run(0.1)
    script.release(confirming)
    script.view("B", "C")
    script.until(lambda: script["A"].left, "A goes", within=5.0)
    assert views(script["C"]) == ["2"]
    assert_sound(script.world)


def test_an_unanswered_leave_is_distinguished_from_an_answered_one() -> None:
    """The leaver's last messages may be lost with it, as in a crash; no check may demand them of the others."""
    script = formed(4, "ABC")
    script["C"].leave()
    script.until(lambda: script["C"].left, "C goes")
    script["B"].pause()
    script["A"].send(b"nobody else gets this")
    script["A"].leave()
    script.until(lambda: script["A"].left, "A goes", within=10.0)
    script["B"].resume()
    script.view("B")
    ends = [record.reason for name in "AC" for record in script[name].records if isinstance(record, records.Stop)]
    assert ends == [records.UNANSWERED, "left"]
    assert [each.fate for each in map(History.of, (script["A"].records, script["C"].records))] == [Fate.CRASHED, Fate.STOPPED]
    assert_sound(script.world)


def test_a_member_that_misses_a_leavers_commit_gets_the_view_from_the_next_in_line() -> None:
    """Otherwise it is blocked for ever: A is in no view, so no member misses it."""
    script = formed(4, "ABC", Commit, SuspectReport)
    lost = script.hold("A", "C", Commit)
    script["A"].leave()
    script.until(lambda: script["A"].left, "A goes, without an answer of C", within=10.0)
    assert (views(script["B"])[-1], views(script["C"])[-1]) == ("2", "3")
    script.view("B", "C")
    assert lost.packets
    script.send("C", "heard again")
    script.everywhere("BC", "heard again")
    assert_sound(script.world)


def test_after_the_death_of_a_leaver_in_its_commits_the_others_are_blocked_for_its_detection_only() -> None:
    """One has installed the view without it. The next in line catches up with that view, in which nothing is to change."""
    script = formed(4, "ABC", Commit)
    lost = script.hold("A", "B", Commit)
    script["A"].leave()
    script.until(lambda: views(script["C"])[-1] == "2", "C continues without A")
    script.kill("A")
    assert lost.packets
    script.run(4.5)
    script.view("B", "C", within=0.0)
    assert not blocked(script["B"])
    assert not blocked(script["C"])
    assert_sound(script.world)


# -- seconds until the survivors have a new view, with all defaults --------------------------------------------------------


#: Seconds that a view change takes at most while no packet is lost.
CHANGE_S = 0.05
VERIFY_S = FailureDetectionConfig().verify_timeout_s
SILENCE_S = FailureDetectionConfig().timeout_s + VERIFY_S


def test_a_site_replaces_its_dead_coordinator_at_once() -> None:
    script = site("A", "B", "C", "D")
    script.kill("A")
    script.view("B", "C", "D", within=CHANGE_S)
    verdict(script)


def test_a_site_replaces_its_dead_coordinator_and_next_in_line_at_once() -> None:
    script = site("A", "B", "C", "D")
    script.kill("B")
    script.run(0.001)
    script.kill("A")
    script.view("C", "D", within=CHANGE_S)
    verdict(script)


@pytest.mark.parametrize("other", "CDE")
def test_when_another_member_dies_with_the_coordinator_it_is_asked_and_not_waited_for(other: str) -> None:
    """Only one survivor watches the dead process, and reports it to the coordinator."""
    script = site("A", "B", "C", "D", "E")
    script.kill(other)
    script.run(0.01)
    script.kill("A")
    script.view(*[name for name in "BCDE" if name != other], within=VERIFY_S + 0.1 + CHANGE_S)
    verdict(script)


def test_a_paused_coordinator_is_replaced_after_the_silence_timeout() -> None:
    """The connections of a paused process stay open, so no other process is notified."""
    script = site("A", "B", "C")
    script["A"].pause()
    script.run(SILENCE_S - 0.6)
    assert all(len(view.members) == 3 for name in "BC" if (view := script[name].view) is not None)
    script.view("B", "C", within=0.6 + 0.5)
