"""Grey faults in small worlds: each affects exactly its targets, and ends; the promises hold meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from relay_lab.sim.process import Process
from relay_lab.simulation import Plan, SeedRun
from relay_lab.simulation.faults import (
    DeadInterface,
    Fault,
    Flood,
    GreyFault,
    Hole,
    Kill,
    LateLetters,
    NarrowWire,
    Pause,
    SlowApplication,
    SlowWan,
    SmallOnly,
    WanCut,
)
from relay_lab.simulation.process import RelayProcess
from sitestack.journal import records
from sitestack.layers.flow_control import FlowControl
from sitestack.model.address import Address
from sitestack.model.message import Scope
from tests.harness.thinned import one_in


def plan_with(*faults: Fault, lasting_s: float = 0.0) -> Plan:
    """Two sites, of four and of two members, and nothing but these faults."""
    return Plan(
        seed=0,
        sites=(("NYC", 4), ("SFO", 2)),
        order="total",
        agreement="survivors",
        multicast=True,
        loss=0.0,
        duplication=0.0,
        duplication_late_s=0.0,
        reordering=0.0,
        reordering_late_s=0.0,
        corruption=0.0,
        faults=faults,
        messages=150,
        size_max=200,
        unicast_share=0.1,
        site_share=0.1,
        lasting_s=lasting_s,
    )


def views_of(process: Process) -> list[int]:
    """The sizes of the views that it installed."""
    return [len(record.members) for record in process.records if isinstance(record, records.View)]


def slowest_across(run: SeedRun) -> float:
    """Seconds that the slowest message of the site with two members took to the first one in the other site."""
    heard: dict[tuple[Address, int], int] = {}
    for process in run.world.processes:
        for record in process.records:
            if isinstance(record, records.Deliver) and process.local.site == "NYC" and record.site == "SFO":
                key = (record.origin, record.first)
                heard[key] = min(record.t, heard.get(key, record.t))
    sent = [r for p in run.world.processes for r in p.records if isinstance(r, records.Send) and r.site == "SFO"]
    across = [record for record in sent if record.scope is Scope.ALL]
    assert across
    return max(heard[record.origin, record.first] - record.t for record in across) / 1e9


def members(run: SeedRun, site: str = "NYC") -> list[Process]:
    """By rank."""
    coordinator = run.world.coordinator(site)
    assert coordinator is not None
    assert coordinator.view is not None
    by_address = {process.local.address: process for process in run.world.alive(site)}
    return [by_address[member] for member in coordinator.view.members]


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "rank"), [(4, None), (14, 2), (16, None)])
def test_a_dead_network_delays_no_message_for_long_and_excludes_no_member(seed: int, rank: int | None) -> None:
    """F51: each direction finds the living network, also that of requests for what was lost meanwhile."""
    plan = plan_with(DeadInterface(2.0, 30.0, "NYC", rank, 0), lasting_s=5.0)
    run = SeedRun(replace(plan, interfaces=2, seed=seed, messages=300, unicast_share=0.5))
    assert run.result().violations == ()
    assert all(len(views) == len(set(views)) for views in map(views_of, members(run)))


@pytest.mark.slow
@pytest.mark.parametrize(("rank", "peer", "left_out"), [(2, 3, False), (0, 2, True), (2, 0, True)])
@pytest.mark.parametrize("one_way", one_in(2, [True, False]))
def test_a_lasting_hole_excludes_only_a_member_that_cannot_reach_the_coordinator(
    rank: int, peer: int, left_out: bool, one_way: bool
) -> None:
    """F43: both are in one view again after the hole, and until then no other member waits."""
    run = SeedRun(plan_with(Hole(2.0, 60.0, "NYC", rank, peer, one_way), lasting_s=20.0))
    assert run.result().violations == ()
    assert run.covered["hole one way" if one_way else "hole"] == 1
    assert run.covered["faults that outlast the load"] == 1
    assert slowest_across(run) < 1.0, "the other site feels nothing of it"
    first = members(run)[0]
    assert (3 in views_of(first)[-3:]) is left_out
    assert len(run.world.network.cuts) == 0


@pytest.mark.slow
def test_a_narrow_wire_loses_datagrams_and_excludes_no_member() -> None:
    """F45: twenty-four messages of 20 kB in a second, over 4 Mbit/s."""
    run = SeedRun(plan_with(NarrowWire(1.0, 20.0, "NYC", 1, 500_000.0, 16_384), Flood(2.0, 1.0, "NYC", 24, 0.0, 20_000)))
    lost_before: list[int] = []
    run.world.schedule.at(3.0, lambda: lost_before.append(run.world.network.lost))
    assert run.result().violations == ()
    assert run.world.network.lost > lost_before[0], "the queue was full"
    assert views_of(members(run)[0])[-1] == 4


def slow(length: float, rate: float) -> SeedRun:
    """The second member of a site takes this much; at first there is enough for it."""
    floods = [Flood(3.0 + at, 1.0, "NYC", 24, 0.0, 200) for at in range(4)]
    plan = plan_with(SlowApplication(2.5, length, "NYC", 1, rate, 2.0), *floods)
    return SeedRun(replace(plan, backlog_bytes_max=6_000))


@pytest.mark.slow
def test_an_application_that_briefly_reads_nothing_fills_the_backlog_and_stays() -> None:
    """F46: shorter than `channel.backlog_hold_s`."""
    run = slow(8.0, 0.0)
    held: list[float] = []
    run.world.schedule.at(12.0, lambda: held.extend(map(backlog, members(run))))
    assert run.result().violations == ()
    assert run.covered["application takes nothing"] == 1
    assert "slow application left out" not in run.covered
    assert max(held) > 6_000
    assert not any(process.left for process in run.world.processes)


def backlog(process: Process) -> float:
    (flow_control,) = [layer for layer in process.stack.layers if isinstance(layer, FlowControl)]
    return flow_control.levels()["backlog_bytes"].now


@pytest.mark.slow
def test_an_application_that_reads_nothing_for_longer_leaves_its_site() -> None:
    run = slow(25.0, 0.0)
    assert run.result().violations == ()
    assert run.covered["slow application left out"] == 1
    assert sum(process.left for process in run.world.processes) == 1
    assert run.covered["restart"] == 1


@pytest.mark.slow
def test_an_application_that_reads_slowly_stays() -> None:
    run = slow(25.0, 1_000.0)
    assert run.result().violations == ()
    assert run.covered["slow application"] == 1
    assert not any(process.left for process in run.world.processes)


def test_unicasts_to_the_gone_have_their_outcome() -> None:
    """F48, X10: inside the site and in the other one, from every survivor."""
    faults = (Kill(1.0, "NYC", 1, 0, None), Kill(1.5, "SFO", 1, 0, None), LateLetters(8.0, 2.0, "NYC", 12))
    run = SeedRun(plan_with(*faults))
    assert run.result().violations == ()
    gone = {process.local.address for process in run.world.processes if not process.alive}
    told = [r for p in run.world.processes for r in p.records if isinstance(r, records.Unreach) and r.target in gone]
    assert run.covered["unicast to the gone"] == 12
    assert len({record.target for record in told}) == 2


def test_a_relay_that_is_paused_for_a_minute_in_a_burst_returns_to_its_view() -> None:
    """F15."""
    run = SeedRun(plan_with(Flood(2.0, 0.6, "NYC", 24, 0.1), Pause(2.3, 60.0, "NYC", 0), lasting_s=33.0))
    assert run.result().violations == ()
    (slept,) = [process for process in run.world.processes if process.paused.closed]
    assert slept.paused.closed[0][1] - slept.paused.closed[0][0] == pytest.approx(60.0, abs=0.01)
    assert views_of(slept)[-1] == 4


def test_the_relays_find_another_way_or_wait_when_a_part_of_a_site_does_not_reach_the_other() -> None:
    """F25: the coordinator alone is cut off, so its site has no link until the cut ends."""
    run = SeedRun(plan_with(WanCut(2.0, 20.0, False, ("NYC", "SFO"), 1)))
    assert run.result().violations == ()
    assert run.covered["part of a wan cut"] == 1


def test_members_with_settings_of_their_own_keep_all_promises() -> None:
    """F47."""
    run = SeedRun(replace(plan_with(Kill(5.0, "NYC", 0, 0, 2.0)), uneven=True))
    settings = set[tuple[str, ...]]()
    run.world.schedule.at(10.0, lambda: settings.update(map(settings_of, run.world.alive())))
    assert run.result().violations == ()
    assert len(settings) > 3


def settings_of(process: Process) -> tuple[str, ...]:
    """Return the settings of its layers."""
    return tuple(repr(getattr(layer, "_config", None)) for layer in process.stack.layers)


@pytest.mark.parametrize("fault", [Hole(2.0, 9.0, "SFO", 4, 5, False), SmallOnly(2.0, 9.0, "SFO", 4, 7, 1_400)])
def test_a_grey_fault_between_a_member_and_itself_has_no_effect(fault: GreyFault) -> None:
    """A rank beyond the end means the last member, which may be the same."""
    run = SeedRun(plan_with(fault))
    assert run.result().violations == ()
    assert not {"hole", "small datagrams only"} & run.covered.keys()


@pytest.mark.long
def test_a_queue_of_two_seconds_starves_no_heartbeat() -> None:
    """F26: bulk from both sides for twenty seconds, far more than passes, and no link is given up."""
    floods = [Flood(2.0 + at, 1.0, site, 24, 0.0, 20_000) for at in range(20) for site in ("NYC", "SFO")]
    plan = replace(plan_with(SlowWan(1.0, 22.0, 0.5, 125_000.0, 2.0), *floods), sites=(("NYC", 2), ("SFO", 2)), size_max=20_000)
    run = SeedRun(plan)
    waited: list[int] = []
    run.world.schedule.at(20.0, lambda: waited.extend(_held(run)))
    result = run.result()
    assert result.violations == ()
    assert max(waited) > 250_000, "more was sent than passed"
    assert not [reason for reason in result.covered if reason.startswith("drop link_")]


def _held(run: SeedRun) -> list[int]:
    return [p.relay.state.buffer.bytes for p in run.world.alive() if isinstance(p, RelayProcess)]
