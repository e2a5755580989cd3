"""Spills in the simulator: disks fail by plan, and a gap is accepted only with a reason that can be true."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from relay.replica.config import BufferConfig, SpillSettings
from relay_lab.simulation import SeedRun
from relay_lab.simulation.dimensions import ROOMY
from relay_lab.simulation.faults import FailingDisk, Fault, Flood, Kill, WanCut
from relay_lab.simulation.shortage import Shortage
from sitestack.journal import records
from tests.harness.journals import Told
from tests.simulation.test_grey_faults import plan_with
from tests.simulation.test_verdicts import gap_of, process

TINY = BufferConfig(budget_entries=1)
SMALL = BufferConfig(budget_entries=8, spill=ROOMY)


# -- runs --------------------------------------------------------------------------------------------------------------


def run_of(*faults: Fault) -> SeedRun:
    """NYC does not reach SFO for 22 seconds, and sends much more than the budget holds once it does not wait any more."""
    cut = WanCut(2.0, 22.0, False, ("NYC", "SFO"))
    floods = [Flood(at, 1.0, "NYC", 40, 0.0) for at in (15.0, 17.0, 19.0, 21.0)]
    plan = replace(plan_with(cut, *floods, *faults), budget=SMALL, unicast_share=0.0, site_share=0.0)
    run = SeedRun(plan)
    assert run.result().violations == ()
    assert run.covered["spilled"] > 3
    return run


def gaps_of(run: SeedRun) -> set[str]:
    """The reasons of gaps at SFO."""
    return {
        record.reason
        for process in run.world.processes
        if process.local.site == "SFO"
        for record in process.records
        if isinstance(record, records.Gap)
    }


def test_entries_beyond_the_budget_are_sent_from_the_disk() -> None:
    run = run_of()
    assert gaps_of(run) == set()
    assert run.covered["sent from a spill"] > 3


def test_entries_that_the_disk_of_the_relay_cannot_store_become_a_gap() -> None:
    """F50: with a separate reason."""
    run = run_of(FailingDisk(16.0, 2.0, "NYC", 0, False))
    assert gaps_of(run) == {"disk"}
    assert run.covered["disk full"] == 1


def test_entries_that_the_disk_of_the_relay_cannot_read_become_a_gap() -> None:
    """F50: it fails shortly before the sites meet again, and works again later."""
    run = run_of(FailingDisk(23.0, 8.0, "NYC", 0, True))
    assert gaps_of(run) == {"disk"}
    assert run.covered["disk unreadable"] == 1


def test_a_disk_that_fails_costs_nothing_while_another_member_relays() -> None:
    assert gaps_of(run_of(FailingDisk(3.0, 25.0, "NYC", 2, True))) == set()


def test_the_disk_fault_of_a_dead_relay_causes_no_gap() -> None:
    """F50: the next one has everything."""
    assert gaps_of(run_of(FailingDisk(3.0, 25.0, "NYC", 0, True), Kill(20.0, "NYC", 0, 0, None))) == set()


# -- verdicts ----------------------------------------------------------------------------------------------------------


def objection(spill: SpillSettings, reason: str, relay: Literal["A", "B"] = "A", failed: tuple[str, ...] = ()) -> str:
    """The objection to a gap at 9 s, at D in SFO, for message 2 of A in NYC: A delivered 1, 2 and 3 at 2 s, B nothing."""
    a = Told("NYC", "A").view("1A", "A").deliver("A", 1).deliver("A", 2).deliver("A", 3)
    b = Told("NYC", "B").view("2A", "AB")
    (a if relay == "A" else b).role("relay", "1A")
    (b if relay == "A" else a).role("member", "1A")
    d = Told("SFO", "D").view("1D", "D", lineage="1D").deliver("A", 1, site="NYC").gap("A", 2, 2, "NYC")
    there = process(d, 0.0, 0.0, 3.0, 9.0)
    judged = replace(gap_of(there), reason=reason)
    there.records[-1] = judged
    processes = [process(a, 0.0, 0.0, 2.0, 2.0, 2.0, 3.0), process(b, 3.0, 3.0, 4.0), there]
    return Shortage(processes, replace(TINY, spill=spill), disks_failed=failed).objection(there, judged)


@pytest.mark.parametrize(
    ("spill", "believed"),
    [
        (ROOMY, False),
        (SpillSettings(512, 1e6), True),
        (SpillSettings(1 << 20, 14.0), True),
        (SpillSettings(1 << 20, 14.1), False),
    ],
)
def test_the_bounds_of_a_spill_are_a_reason_only_when_they_can_have_been_reached(spill: SpillSettings, believed: bool) -> None:
    """R3: entries that fit on the disks are never declared lost for lack of room."""
    assert (objection(spill, "budget") == "") is believed


def test_a_disk_is_a_reason_only_where_one_has_failed() -> None:
    assert "though the spill of its relay" in objection(ROOMY, "disk")
    assert "though the spill of its relay" in objection(ROOMY, "disk", failed=("SFO",))
    assert objection(ROOMY, "disk", failed=("NYC",)) == ""


def test_a_relay_present_at_the_send_must_not_report_a_gap_as_not_held() -> None:
    assert "though the spill of its relay" in objection(ROOMY, "not_held")
    assert objection(ROOMY, "not_held", relay="B") == "", "it joined later"
