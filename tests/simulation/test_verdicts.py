"""Verdicts that only a simulated world can give: on gaps by the budget, on queues at rest, on epochs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from relay.replica.config import BufferConfig
from relay_lab.sim.process import Process
from relay_lab.simulation import SeedRun
from relay_lab.simulation.faults import Flood, Leave
from relay_lab.simulation.shortage import Shortage
from relay_lab.simulation.verdict import SeedVerdict, unaccounted, unsettled
from sitestack.journal import records
from sitestack.layers.nakack.receiver_windows import ReceiverWindows
from sitestack.layers.sequencer.forward_table import ForwardTable
from sitestack.model.address import Address
from sitestack.model.message import Batch
from sitestack.promises import History
from tests.harness.journals import Told
from tests.simulation.test_grey_faults import plan_with

SECOND = 10**9


def process(told: Told, *seconds: float) -> Process:
    """A process with this journal. `seconds`: the times of its records; the last is also that of all further records."""
    times = [*seconds, *[seconds[-1]] * len(told.records)]
    journal = [replace(record, t=int(at * SECOND)) for record, at in zip(told.records, times, strict=False)]
    return cast(Process, SimpleNamespace(local=SimpleNamespace(site=told.site), records=journal))


def gap_of(process: Process) -> records.Gap:
    return next(record for record in process.records if isinstance(record, records.Gap))


def objection(budget: BufferConfig, sent: float = 2.0, gap: float = 3.0, born: float = 0.0, *, begun: bool = True) -> str:
    """Return the objection to a gap at D in SFO for message 2 of A in NYC; A delivered 1, 2 and 3."""
    a = Told("NYC", "A").view("1A", "A").deliver("A", 1).deliver("A", 2).deliver("A", 3)
    d = Told("SFO", "D").view("1D", "D", lineage="1D")
    if begun:
        d.deliver("A", 1, site="NYC")
    d.gap("A", 2, 2, "NYC")
    there = process(d, born, born, gap)
    return Shortage([process(a, 0.0, 0.0, 1.0, sent, sent), there], budget).objection(there, gap_of(there))


def test_a_gap_is_believed_only_when_the_budget_was_exceeded() -> None:
    """R3, R5, R8: every relay still holds the budget's entries, so it must not declare them lost."""
    assert "though the budget was not exceeded" in objection(BufferConfig())
    assert "NYC/" in objection(BufferConfig())
    assert objection(BufferConfig(budget_age_s=1.0)) == ""
    assert objection(BufferConfig(budget_age_s=1.1)) != ""
    assert objection(BufferConfig(budget_entries=1)) == ""
    assert objection(BufferConfig(budget_bytes=300)) == ""


def test_a_gap_for_messages_older_than_the_site_is_a_violation() -> None:
    """R29: a new site cannot tell a hole from history, so it is sent the beginning of the other's messages."""
    aged = BufferConfig(budget_age_s=1.0)
    assert "sent before this site was there" in objection(aged, sent=2.0, born=2.5, gap=4.0, begun=False)
    assert objection(aged, sent=2.0, born=2.5, gap=4.0) == "", "after its beginning a gap is a gap"
    assert objection(aged, sent=2.0, born=1.5, gap=4.0, begun=False) == ""


def test_a_batch_under_uniform_agreement_counts_from_its_sending() -> None:
    """Seed 136: a batch is in the buffer, and may be dropped from it, before any member delivers it."""
    a = Told("NYC", "A").view("1A", "A").send(1).send(2).send(3).deliver("A", 1).deliver("A", 2).deliver("A", 3)
    d = Told("SFO", "D").view("1D", "D", lineage="1D").deliver("A", 1, site="NYC").gap("A", 2, 2, "NYC")
    there = process(d, 0.0, 0.0, 2.0)
    here = process(a, 0.0, 0.0, 1.0, 1.0, 1.0, 3.0)
    tiny = BufferConfig(budget_entries=1)
    assert Shortage([here, there], tiny, uniform=True).objection(there, gap_of(there)) == ""
    assert "not exceeded" in Shortage([here, there], tiny).objection(there, gap_of(there))


@pytest.mark.parametrize(
    ("pair", "span", "is_removed"),
    [
        (("NYC", "SFO"), (1.0, 6.0), True),
        (("NYC", "SFO"), (2.3, 6.0), True),
        (("NYC", "SFO"), (2.5, 6.0), False),
        (("NYC", "SFO"), (1.0, 2.5), False),
        (("NYC", "SFO"), (-2.0, 1.5), False),
        (("SFO", "NYC"), (1.0, 6.0), False),
    ],
)
def test_nothing_is_held_for_a_site_that_was_no_peer_for_the_age_of_the_budget(
    pair: tuple[str, str], span: tuple[float, float], is_removed: bool
) -> None:
    """X11: messages of 2 s, a gap at 4 s. A site put back in time, or before they were sent, is held for."""
    a = Told("NYC", "A").view("1A", "A").deliver("A", 1).deliver("A", 2)
    d = Told("SFO", "D").view("1D", "D", lineage="1D").deliver("A", 1, site="NYC").gap("A", 2, 2, "NYC")
    there = process(d, 0.0, 0.0, 4.0)
    shortage = Shortage([process(a, 0.0, 0.0, 1.0, 2.0), there], BufferConfig(budget_age_s=1.6), lacking={pair: [span]})
    assert shortage.was_removed(there, gap_of(there)) is is_removed


def calm_run() -> SeedRun:
    """Two sites with no faults at all."""
    return SeedRun(replace(plan_with(), messages=20, unicast_share=0.0))


def test_at_rest_every_queue_is_at_its_floor_and_a_queue_that_is_not_is_named() -> None:
    """B3."""
    run = calm_run()
    assert run.result().violations == ()
    one = run.world.alive()[0]
    assert unsettled(one) == []
    one.batching.append(b"still here", cast(Any, 0))
    assert unsettled(one) == ["batching.credit_bytes is 14 at rest", "batching.open_bytes is 14 at rest"]


def keep_everything(windows: ReceiverWindows, vector: dict[Address, int]) -> None:
    """A leak: stable messages are not forgotten."""


def count_twice(table: ForwardTable, batch: Batch) -> None:
    """A leak: bytes are counted twice, and taken off once."""
    table.bytes.add(len(batch.body))
    add(table, batch)


add = ForwardTable.add


@pytest.mark.parametrize(
    ("queue", "owner", "method", "leak"),
    [
        ("nakack.retained_bytes", ReceiverWindows, "purge", keep_everything),
        ("sequencer.undelivered_bytes", ForwardTable, "add", count_twice),
    ],
)
def test_a_leak_that_breaks_nothing_else_is_named_at_rest(
    monkeypatch: pytest.MonkeyPatch, queue: str, owner: type, method: str, leak: Callable[..., object]
) -> None:
    monkeypatch.setattr(owner, method, leak)
    violations = calm_run().result().violations
    assert any(each.startswith("B3 ") and f": {queue} is " in each for each in violations)
    assert {each.split()[0] for each in violations} <= {"B3", "B4"}


def test_a_merge_in_a_calm_start_is_found() -> None:
    """A13."""
    run = calm_run()
    assert run.result().violations == ()
    journal = run.world.alive()[0].records
    view = next(record for record in journal if isinstance(record, records.View))
    journal.append(replace(view, vid=view.vid._replace(counter=50), kind="merge", subs=((view.vid, view.members),)))
    verdict = SeedVerdict(run.plan, run.world, run.nemesis)
    verdict.formed()
    assert "A13" in {violation.split()[0] for violation in verdict.violations(settled=False)}


@pytest.mark.parametrize(
    ("founded_s", "merges", "too_many"), [(0, 2, False), (0, 3, True), (2, 3, False), (2, 4, True), (5, 3, True)]
)
def test_more_merges_than_parts_need_after_a_heal_are_found(founded_s: int, merges: int, too_many: bool) -> None:
    """M3: one more for a part that came about `founded_s` after the heal, since it was being detected just then."""
    run = calm_run()
    assert run.result().violations == ()
    verdict = SeedVerdict(run.plan, run.world, run.nemesis)
    verdict.healed()
    healed = int(run.world.now * 1e9)
    journal = run.world.alive()[0].records
    view = next(record for record in journal if isinstance(record, records.View))
    if founded_s:
        view = replace(view, vid=view.vid._replace(counter=49), t=healed + founded_s * 10**9)
        journal.append(view)
    for number in range(merges):
        vid = view.vid._replace(counter=50 + number)
        journal.append(replace(view, vid=vid, t=healed + 6 * 10**9, kind="merge", subs=((view.vid, view.members),)))
    found = {violation.split()[0] for violation in verdict.violations(settled=False)}
    assert ("M3" in found) == too_many


def test_a_leaver_under_load_must_deliver_or_report_all_its_messages() -> None:
    """S16, with messages under way at the time of the order to leave."""
    run = calm_run()
    site = next(name for name, members in run.plan.sites if members > 1)
    run = SeedRun(replace(run.plan, faults=(Flood(2.0, 0.1, site, 30, 0.0), Leave(2.05, site, 0)), batch_count_max=1))
    assert run.result().violations == ()
    leaver = next(process for process in run.world.processes if process.left)
    sends = [record for record in leaver.records if isinstance(record, records.Send)]
    leaver.records.append(replace(sends[-1], first=10_000))
    said = SeedVerdict(run.plan, run.world, run.nemesis).violations(settled=False)
    assert any(violation.startswith("S16") for violation in said)


def test_each_hole_in_the_own_site_must_be_reported_as_an_exact_gap() -> None:
    """S21: messages before the first delivery are no hole, since a member's beginning is unknown."""

    def said(told: Told) -> list[str]:
        return [sentence.split(" all ", 1)[1] for sentence in unaccounted([History.of(told.records, running=True)])]

    def begun() -> Told:
        return Told("NYC", "D").view("1A", "AD").deliver("A", 3)

    assert said(begun().gap("A", 4, 5, "NYC").deliver("A", 6)) == []
    assert said(begun().gap("A", 4, 4, "NYC").deliver("A", 6)) == ["5 is a hole without a gap"]
    assert said(begun().gap("A", 3, 5, "NYC").deliver("A", 6)) == ["3 was reported as a gap and delivered"]
    assert said(begun().gap("A", 5, 5, "NYC").deliver("A", 4)) == [
        "5 was reported as a gap before a lower number was delivered"
    ]
