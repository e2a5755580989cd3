"""The audit finds what `relay check` finds in all runs of one site that the tests of the checkers write by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from sitestack.journal import records
from sitestack.promises import Report
from tests.harness import journals
from tests.harness.journals import Told
from tests.sitestack.promises import test_checkers_across, test_checkers_site, test_joiners
from tests.spark.promises.auditing import Judged, judge_both, store_told

MODULES = (test_checkers_site, test_checkers_across, test_joiners)


class Run(NamedTuple):
    """The journals of one check, and the names of the members that crashed."""

    told: tuple[Told, ...]
    crashed: str


def find_tests(place: Any) -> Iterator[Callable[..., None]]:
    """Yield the tests of a module, with those of its classes, that check hand-written journals."""
    for name, value in vars(place).items():
        if name.startswith("Test"):
            yield from [getattr(value(), each) for each in vars(value) if each.startswith("test_")]
        elif name.startswith("test_") and "check" in value.__code__.co_names:
            yield value


def calls_of(test: Callable[..., None]) -> Iterator[Callable[[], None]]:
    """Yield the calls that pytest would make of a test: one for each set of parameters."""
    marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    if not marks:
        yield test
    for mark in marks:
        names, rows = mark.args
        for row in rows:
            values = (row,) if isinstance(names, str) else row
            parameters = dict(zip((names,) if isinstance(names, str) else names, values, strict=True))
            yield partial(test, **parameters)


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """All checked runs of one site, each as it is at that moment; linked sites would owe each other everything."""
    found: list[Run] = []

    def check(*told: Told, crashed: str = "", **options: Any) -> Report:
        copies = tuple(copy(each) for each in told)
        for each in copies:
            each.records = [*each.records]
        is_linked = any(isinstance(record, records.GlobalView) for each in told for record in each.records)
        if not is_linked and len({each.site for each in told}) == 1:
            found.append(Run(copies, crashed))
        return journals.check(*told, crashed=crashed, **options)

    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setattr(module, "check", check)
            for test in find_tests(module):
                for call in calls_of(test):
                    call()
    return found


@pytest.fixture(scope="module")
def judged(runs: list[Run], spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """Each run as separate sites in one audit, which agrees with the check."""
    directory = tmp_path_factory.mktemp("told")
    for number, run in enumerate(runs, 1):
        store_told(directory, run.told, number, run.crashed)
    return judge_both(spark, directory)


def test_the_audit_agrees_with_the_check_and_every_promise_is_broken_somewhere(judged: Judged) -> None:
    expected = "L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 M1 X10 G4"
    assert {invariant for invariant, _ in judged.found} == set(expected.split())


def test_a_violation_states_its_messages_and_place(judged: Judged) -> None:
    said = [what for sentences in judged.at("NYC").values() for what in sentences]
    assert any(what.startswith("delivered NYC") and what.endswith("414141 all 3 without 2 before it") for what in said)
    assert any(what.endswith("414141 all 1..3 again") for what in said)
