"""Membership as stories: processes join, leave, die and come back, and the members agree on each view."""

from __future__ import annotations

from functools import partial

import pytest

from relay_lab.sim import network_faults
from relay_lab.sim.process import Process
from relay_lab.sim.world import World
from sitestack.config import SiteConfig
from sitestack.journal import records
from sitestack.layers.membership import MembershipStatistics
from sitestack.layers.membership.headers import Commit, FlushRequest, JoinRequest, Prepare
from sitestack.model.message import Scope
from tests.harness.script import Script, site_maker
from tests.harness.stories import assert_sound
from tests.harness.thinned import one_in

CONFIG = SiteConfig(site="NYC")


def world_of(seed: int, *names: str) -> tuple[World, list[Process]]:
    """A formed site."""
    world = World(seed, site_maker(CONFIG))
    processes = [world.spawn("NYC", name) for name in names]
    assert world.run_until(lambda: world.settled("NYC", processes), 20.0)
    return world, processes


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
    coordinator = world.coordinator("NYC")
    assert coordinator is not None
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
    coordinator = world.coordinator("NYC")
    assert coordinator is not None
    coordinator.leave()
    assert world.run_until(lambda: coordinator.left, 1.0)


@pytest.mark.parametrize("seed", one_in(4, range(8)))
def test_a_leaving_coordinator_stays_until_all_have_installed(seed: int) -> None:
    """A11: otherwise a lost commit would leave the others blocked until they find out that it is gone."""
    world, processes = world_of(seed, "A", "B", "C")
    coordinator = world.coordinator("NYC")
    assert coordinator is not None
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
        coordinator = world.coordinator("NYC")
        assert coordinator is not None
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
    script = Script(World(3, site_maker(CONFIG)), JoinRequest, FlushRequest, Prepare, Commit)
    script.site("NYC", "A", "B", "C")
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
    merged = processes[0].view
    assert merged is not None
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


def test_a_paused_member_returns_by_a_merge() -> None:
    """F15: a member paused for ten times the timeout is excluded, notices, and is merged; no other member waits for
    it.
    """
    world, processes = world_of(4, "A", "B", "C")
    sleeper = world.coordinator("NYC")
    assert sleeper is not None
    others = [p for p in processes if p is not sleeper]
    sleeper.pause()
    assert world.run_until(lambda: world.settled("NYC", others), 6.0)
    others[0].send(b"without you")
    world.run(20.0)
    sleeper.resume()
    assert world.run_until(lambda: world.settled("NYC", processes), 40.0)
    world.run(3.0)
    assert_sound(world)


def test_a_joiner_that_dies_on_the_way_in_does_not_hold_the_others_for_long() -> None:
    script = Script(World(5, site_maker(CONFIG)), Prepare, Commit)
    script.site("NYC", "A", "B")
    script.start("NYC", "C")
    a, b = script["A"], script["B"]
    assert script.world.run_until(lambda: blocked(b), 5.0)
    script.kill("C")
    assert script.world.run_until(lambda: not blocked(a) and not blocked(b), 5.0)
    a.send(b"on we go", Scope.SITE)
    script.run(1.0)
    assert script.delivered("B") == ["on we go"]
