"""Synthetic journals: sound without faults, reproducible, and `relay check` finds each planted fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay.check import check_directories
from relay.journal import JournalOptions, JournalStore
from relay_lab.bench.generate import Fault, Generator, GeneratorPlan, Planted
from sitestack.journal import records
from sitestack.promises import Report


def generate(directory: Path, plan: GeneratorPlan) -> tuple[list[Planted], Report]:
    generator = Generator(plan)
    stores: dict[str, JournalStore] = {}
    for process, record in generator.run():
        if process.name not in stores:
            stores[process.name] = JournalStore(JournalOptions(directory), process.site, process.uuid, process.name)
        stores[process.name].write(record)
    for store in stores.values():
        store.close()
    return generator.planted, check_directories([directory])


def test_without_faults_every_promise_holds(tmp_path: Path) -> None:
    planted, report = generate(tmp_path, GeneratorPlan(deliveries=5_000, sites=("NYC", "SFO", "LON"), skew=0.5))
    assert planted == []
    assert (report.verdict, report.quiescent, report.total_order, report.processes) == ("pass", True, True, 9)
    assert 4_000 < report.deliveries < 6_000


@pytest.mark.parametrize("fault", Fault)
def test_each_planted_fault_is_found_where_it_was_planted(tmp_path: Path, fault: Fault) -> None:
    planted, report = generate(tmp_path, GeneratorPlan(deliveries=20_000, faults={fault: 5}))
    assert [each.fault for each in planted] == [fault] * 5
    assert report.verdict == "fail"
    planted_at = {f"{each.site}/{each.node}({each.uuid.hex()[:8]})" for each in planted}
    blamed = {violation.where for violation in report.violations}
    # Of members whose orders differ all may be named.
    assert planted_at == blamed if fault in (Fault.LOSS, Fault.DUPLICATE) else planted_at <= blamed
    wrong = sum(each.batch.count for each in planted)
    if fault is Fault.LOSS:
        assert (report.lost, report.duplicated, report.reordered) == (wrong, 0, 0)
    elif fault is Fault.DUPLICATE:
        assert (report.lost, report.duplicated, report.reordered) == (0, wrong, 0)
    elif fault is Fault.SWAP:
        assert (report.lost, report.duplicated) == (0, 0)
        assert report.reordered >= 5
    else:
        assert sum("there is no journal of its origin" in violation.what for violation in report.violations) == 5


def test_skew_makes_one_origin_send_its_share() -> None:
    sends = [
        (process.name, record)
        for process, record in Generator(GeneratorPlan(deliveries=60_000, skew=0.8)).run()
        if isinstance(record, records.Send)
    ]
    busy = sum(name == "NYC-1" for name, _ in sends)
    assert 0.75 < busy / len(sends) < 0.9
