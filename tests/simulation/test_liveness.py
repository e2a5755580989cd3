"""Liveness (T1 to T3): a missed deadline is found, in a run that is otherwise without a fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from relay_lab.sim.process import Process
from relay_lab.simulation import SeedRun
from relay_lab.simulation.faults import Flood, Kill, NarrowWire
from relay_lab.simulation.liveness import SIZE
from relay_lab.simulation.verdict import SeedVerdict
from sitestack.journal import records
from sitestack.layers.flow_control.accounts import Outlet
from sitestack.model.message import Scope
from tests.simulation.test_verdicts import calm_run

SECOND = 10**9


@pytest.fixture(scope="module")
def calm() -> SeedRun:
    run = calm_run()
    assert run.result().violations == ()
    return run


def judge(run: SeedRun) -> set[str]:
    """Return the invariants that the verdict on this run names, without those judged only at the end."""
    return {each.split()[0] for each in SeedVerdict(run.plan, run.world, run.nemesis).violations(settled=False)}


def a_pair(run: SeedRun) -> tuple[Process, int, records.Deliver]:
    """A member of a site of several, the place of a delivery in its journal, and that delivery: of a companion's multicast."""
    for process in run.world.processes:
        for place, record in enumerate(process.records):
            if not isinstance(record, records.Deliver) or record.scope is not Scope.ALL or record.t > 20 * SECOND:
                continue
            if record.site == process.local.site and record.origin != process.local.address:
                return process, place, record
    raise AssertionError("nobody has heard a companion")


def delay(monkeypatch: pytest.MonkeyPatch, process: Process, place: int, seconds: int) -> None:
    """Change the journal so that this delivery is so much later."""
    journal = list(process.records)
    journal[place] = replace(journal[place], t=journal[place].t + seconds * SECOND)
    monkeypatch.setattr(process, "records", journal)


def test_a_late_delivery_by_a_companion_is_found(calm: SeedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """T1."""
    process, place, _ = a_pair(calm)
    assert "T1" not in judge(calm)
    delay(monkeypatch, process, place, 9)
    assert "T1" not in judge(calm)
    delay(monkeypatch, process, place, 2)
    assert "T1" in judge(calm)


def test_a_paused_or_partitioned_member_is_not_late(calm: SeedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """T1 is about those that stay together and run."""
    process, place, delivered = a_pair(calm)
    delay(monkeypatch, process, place, 11)
    at = delivered.t / SECOND
    with monkeypatch.context() as paused:
        paused.setattr(process.paused, "closed", [(at + 1.0, at + 2.0)])
        assert "T1" not in judge(calm)
    with monkeypatch.context() as minor:
        minor.setattr(process.minor, "closed", [(at + 1.0, at + 2.0)])
        assert "T1" not in judge(calm), "a part without the majority keeps its messages"
    assert "T1" in judge(calm)
    other = next(each for each in calm.world.processes if each.local.address == delivered.origin)
    view = next(record for record in reversed(other.records) if isinstance(record, records.View))
    alone = replace(view, t=delivered.t + SECOND, members=(other.local.address,))
    monkeypatch.setattr(other, "records", [*other.records, alone])
    assert "T1" not in judge(calm)


def test_more_faults_and_late_copies_give_more_time(calm: SeedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """T1: a second fault in that time is one more detection; a copy that comes late shows the dead as alive."""
    process, place, delivered = a_pair(calm)
    delay(monkeypatch, process, place, 13)
    at = delivered.t / SECOND - calm.nemesis.began
    site = process.local.site
    deaths = (Kill(at + 1.0, site, 0, 0, None), Kill(at + 2.0, site, 0, 0, None))
    later = tuple([replace(death, at=death.at + 9.5) for death in deaths])
    verdicts = {}
    for name, plan in {
        "later": replace(calm.plan, faults=later),
        "copies and later": replace(calm.plan, faults=later, duplication=0.1, duplication_late_s=2.0),
        "one": replace(calm.plan, faults=deaths[:1]),
        "two": replace(calm.plan, faults=deaths),
        "elsewhere": replace(calm.plan, faults=tuple([replace(death, site="elsewhere") for death in deaths])),
        "copies": replace(calm.plan, duplication=0.1, duplication_late_s=4.0),
    }.items():
        found = SeedVerdict(plan, calm.world, calm.nemesis)
        found.liveness._nemesis.plan = plan
        verdicts[name] = any(each.startswith("T1") for each in found.liveness.violations(calm.world.now))
    late = {name for name, is_late in verdicts.items() if is_late}
    assert late == {"later", "one", "elsewhere"}


def test_a_member_that_is_blocked_for_long_in_a_minute_is_found(calm: SeedRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """T2: short blocks add up, and those of another minute do not."""
    process = calm.world.processes[0]
    monkeypatch.setattr(process.blocked, "closed", [(10.0, 13.0), (40.0, 42.9), (75.0, 76.0)])
    assert "T2" not in judge(calm)
    monkeypatch.setattr(process.blocked, "closed", [(10.0, 13.0), (40.0, 43.1)])
    assert "T2" in judge(calm)


@pytest.mark.parametrize(("at", "allowed"), [(5.0, True), (200.0, False)])
def test_parts_that_merge_over_a_narrow_wire_have_the_time_to_exchange_their_state(
    calm: SeedRun, monkeypatch: pytest.MonkeyPatch, at: float, allowed: bool
) -> None:
    process = calm.world.processes[0]
    monkeypatch.setattr(process.blocked, "closed", [(10.0, 16.5)])
    plan = replace(calm.plan, faults=(NarrowWire(at, 10.0, process.local.site, 0, 100.0, 1 << 16),))
    found = SeedVerdict(plan, calm.world, calm.nemesis).liveness.violations(calm.world.now)
    assert any(each.startswith("T2") for each in found) is not allowed


@pytest.mark.parametrize(("after", "allowed"), [(1, True), (3, False)])
def test_what_is_sent_while_a_narrow_wire_is_behind_gives_more_time(
    calm: SeedRun, monkeypatch: pytest.MonkeyPatch, after: int, allowed: bool
) -> None:
    """T1: the wire needs 2 s for each of two messages, and delivers the first one after 13 s."""
    process, place, delivered = a_pair(calm)
    delay(monkeypatch, process, place, 13)
    here = [each for each in calm.world.processes if each.local.site == process.local.site]
    sender = next(each for each in here if each.local.address == delivered.origin)
    key = (Scope.ALL, delivered.first)
    sent = next(each for each in sender.records if isinstance(each, records.Send) and (each.scope, each.first) == key)
    for each in here:
        monkeypatch.setattr(each, "records", [record for record in each.records if not isinstance(record, records.Send)])
    later = replace(sent, t=sent.t + after * SECOND, first=sent.first + 100)
    monkeypatch.setattr(sender, "records", [*sender.records, sent, later])
    (size,) = SIZE.unpack(sent.sizes)
    wire = NarrowWire(sent.t / SECOND - calm.nemesis.began - 10.0, 60.0, process.local.site, 0, size / 2, 1 << 16)
    verdict = SeedVerdict(replace(calm.plan, faults=(wire,), multicast=True), calm.world, calm.nemesis)
    found = verdict.liveness.violations(calm.world.now)
    assert any(f"delivered ALL {sent.first} of" in each for each in found) is not allowed


def with_fault_in_the_end(monkeypatch: pytest.MonkeyPatch, fault: Callable[[Process], None]) -> tuple[str, ...]:
    """Return the findings of a calm run when this happens to one of its processes before the probes."""
    run = calm_run()
    settle = run._settle

    def settle_with_fault() -> None:
        fault(run.world.processes[0])
        settle()

    monkeypatch.setattr(run, "_settle", settle_with_fault)
    return run.result().violations


def test_a_member_that_cannot_send_in_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T3: a window that is never opened again, for any reason."""
    violations = with_fault_in_the_end(monkeypatch, lambda process: setattr(process, "held_back", True))
    assert {each.split()[0] for each in violations} == {"T3"}
    assert all("cannot send to ALL" in each for each in violations)


def test_a_member_that_does_not_deliver_in_the_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """T3: its stack accepts frames and passes none up."""
    violations = with_fault_in_the_end(
        monkeypatch, lambda process: monkeypatch.setattr(process.batching, "up", lambda event, now: [])
    )
    assert any(each.startswith("T3") and "did not deliver" in each for each in violations)


@pytest.mark.parametrize(("window_bytes", "found"), [(2_000, "T3"), (200_000, "B3")])
def test_credit_that_is_lost_is_found(window_bytes: int, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small window closes for good (T3); and at rest all that was marked in a large one is acknowledged (B3)."""

    def lose_one(outlet: Outlet, total_bytes: int) -> None:
        outlet.acknowledged = max(outlet.acknowledged, min(total_bytes, outlet.sent) - 1)

    monkeypatch.setattr(Outlet, "acknowledge", lose_one)
    plan = calm_run().plan
    flood = Flood(2.0, 1.0, plan.sites[0][0], 48, 0.0, 5_000)
    violations = SeedRun(replace(plan, window_bytes=window_bytes, faults=(flood,))).result().violations
    assert found in {each.split()[0] for each in violations}
    assert found == "T3" or any("flow_control.awaited_bytes is " in each for each in violations)
