"""Checkers are checked: a correct run gives no violation, and a correct run with one thing wrong always gives one.

A line of a journal is removed, repeated or changes places with another, a thousand times each; every time it is reported.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from sitestack.journal import records
from sitestack.model.message import Scope
from sitestack.promises import History, Report, check_all
from tests.harness.correct_run import CorrectRun, Process

MUTATIONS = 250
MUTATIONS_PER_RUN = 25


def mutated_runs(seed: int, **options: bool) -> Iterator[tuple[random.Random, CorrectRun, list[History]]]:
    """`MUTATIONS` times a generator of randomness, a correct run, and its histories."""
    rng = random.Random(seed)
    for number in range(MUTATIONS // MUTATIONS_PER_RUN):
        run = CorrectRun(1_000 * seed + number, steps=80, **options)
        histories = run.histories()
        for _ in range(MUTATIONS_PER_RUN):
            yield rng, run, histories


def check_with(run: CorrectRun, histories: list[History], process: Process, changed: list[records.Record]) -> Report:
    """The report of the run, with this process's journal replaced."""
    others = [each for each in histories if each.uuid != process.uuid]
    return check_all([*others, History.of(changed, process.running)], quiescent=True, total_order=True)


def pick(rng: random.Random, run: CorrectRun, unicasts: bool) -> tuple[Process, list[int]]:
    """A survivor and the places of its deliveries in its journal."""
    while True:
        process = rng.choice([each for each in run.processes if each.running])
        places = [
            at
            for at, record in enumerate(process.records)
            if isinstance(record, records.Deliver) and (unicasts or record.scope is not Scope.UNICAST)
        ]
        if len(places) >= 2:
            return process, places


@pytest.mark.parametrize("seed", range(40))
def test_a_correct_run_has_no_violation(seed: int) -> None:
    run = CorrectRun(seed, steps=400, with_gseq=seed % 2 == 0)
    report = check_all(run.histories(), quiescent=True, total_order=True)
    assert report.violations == ()
    assert (report.lost, report.duplicated, report.reordered) == (0, 0, 0)
    assert report.verdict == "pass"
    assert report.deliveries > 500
    assert report.lag_ms.keys() == {"NYC>SFO", "SFO>NYC"}


def test_every_removed_delivery_is_reported() -> None:
    for rng, run, histories in mutated_runs(1):
        process, places = pick(rng, run, unicasts=True)
        at = rng.choice(places)
        removed = process.records[at]
        assert isinstance(removed, records.Deliver)
        if removed.scope is Scope.UNICAST and removed.origin in run.crashed():
            continue  # X10 asks nothing of them
        report = check_with(run, histories, process, process.records[:at] + process.records[at + 1 :])
        assert report.lost == removed.count, (removed, report.violations)
        assert report.violations


def test_every_duplicated_delivery_is_reported() -> None:
    for rng, run, histories in mutated_runs(2):
        process, places = pick(rng, run, unicasts=True)
        at = rng.choice(places)
        copied = process.records[at]
        assert isinstance(copied, records.Deliver)
        later = rng.randrange(at + 1, len(process.records) + 1)
        changed = [*process.records[:later], copied, *process.records[later:]]
        report = check_with(run, histories, process, changed)
        assert report.duplicated == copied.count, (copied, report.violations)
        assert report.lost == 0
        assert {"L2", "X2"} & {violation.invariant for violation in report.violations}


@pytest.mark.parametrize("with_gseq", [True, False])
def test_every_swapped_pair_of_deliveries_is_reported(with_gseq: bool) -> None:
    """Of multicasts: unicasts of different origins have no order among each other or towards multicasts."""
    for rng, run, histories in mutated_runs(3 + with_gseq, with_gseq=with_gseq):
        process, places = pick(rng, run, unicasts=False)
        one, other = rng.sample(places, 2)
        changed = list(process.records)
        changed[one], changed[other] = changed[other], changed[one]
        report = check_with(run, histories, process, changed)
        assert report.violations, (process.records[one], process.records[other])


def test_swapped_neighbours_of_different_origins_are_reported_as_reordered() -> None:
    for rng, run, histories in mutated_runs(5):
        process, places = pick(rng, run, unicasts=False)
        at = rng.randrange(len(places) - 1)
        one, other = places[at : at + 2]
        first, second = process.records[one], process.records[other]
        assert isinstance(first, records.Deliver)
        assert isinstance(second, records.Deliver)
        if first.vid != second.vid:
            continue
        changed = list(process.records)
        changed[one], changed[other] = second, first
        report = check_with(run, histories, process, changed)
        assert report.reordered in (first.count, second.count)
        assert (report.lost, report.duplicated) == (0, 0)
