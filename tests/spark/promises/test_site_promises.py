"""L1 and L8 by the transforms, and the way of the evidence to the checkers that judge the rest.

Hand-written runs of a site, each a separate site in one audit. The whole equals the result of `relay check` for
the same journals; the tests of the checkers have more runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from sitestack.journal import records
from tests.harness.journals import OOB, SITE, UNICAST, Told, outlived_sender, paused_sender
from tests.spark.promises.auditing import Judged, judge_both, store_told


class Run(NamedTuple):
    """A hand-written run, and its faults: invariant -> members."""

    told: tuple[Told, ...]
    wrong: dict[str, str]
    crashed: str = ""


def members(names: str = "AB") -> tuple[Told, ...]:
    return tuple(Told("NYC", name).view("1A", names) for name in names)


def sound() -> Run:
    a, b = members()
    a.send(1).send(1, scope=SITE).send(2, count=3)
    for each in (a, b):
        each.deliver("A", 1, gseq=1).deliver("A", 1, scope=SITE, gseq=2).deliver("A", 2, count=3, gseq=4)
    return Run((a, b), {})


def never_sent() -> Run:
    a, b = members()
    for each in (a, b):
        each.deliver("A", 1)
    return Run((a, b), {"L1": "AB"})


def other_contents() -> Run:
    a, b = members()
    a.send(1).deliver("A", 1)
    b.deliver("A", 1)
    last = b.records[-1]
    assert isinstance(last, records.Deliver)
    b.records[-1] = replace(last, digest=bytes(32))
    return Run((a, b), {"L1": "B"})


def cut_anew() -> Run:
    a, b = members()
    a.send(1, count=4).deliver("A", 1, count=4)
    b.deliver("A", 1, count=2).deliver("A", 3, count=2)
    return Run((a, b), {"L1": "B"})


def used_twice() -> Run:
    a, b = members()
    a.send(1).send(1).deliver("A", 1)
    b.deliver("A", 1)
    return Run((a, b), {"L1": "A"})


def torn_send_of_a_crashed_origin() -> Run:
    """Its last batch may be missing in its journal; no second one."""
    a, b, c = members("ABC")
    c.send(1).deliver("C", 1)
    for each in (a, b):
        each.deliver("C", 1).deliver("C", 2).view("2A", "AB")
    return Run((a, b, c), {}, crashed="C")


def two_torn_sends() -> Run:
    a, b, c = members("ABC")
    c.send(1).deliver("C", 1)
    for each in (a, b):
        each.deliver("C", 1).deliver("C", 2).deliver("C", 3).view("2A", "AB")
    return Run((a, b, c), {"L1": "AB"}, crashed="C")


def second_delivery() -> Run:
    a, b = members()
    a.send(1, count=3).deliver("A", 1, count=3).deliver("A", 1, count=3)
    b.deliver("A", 1, count=3)
    return Run((a, b), {"L2": "A"})


def hole() -> Run:
    a, b = members()
    a.send(1).send(2).send(3)
    a.deliver("A", 1).deliver("A", 2).deliver("A", 3)
    b.deliver("A", 1).deliver("A", 3)
    return Run((a, b), {"L3": "B", "L9": "B"})


def late() -> Run:
    a, b = members()
    a.send(1).send(2).deliver("A", 1).deliver("A", 2)
    b.deliver("A", 2).deliver("A", 1)
    return Run((a, b), {"L3": "B", "L8": "B"})


def joiner_has_it_in_its_state() -> Run:
    return Run(paused_sender(held=True), {})


def joiner_owes_what_a_paused_sender_brings_back() -> Run:
    return Run(paused_sender(held=False), {"L3": "C", "L9": "C"})


def founder_has_it_from_whom_it_met() -> Run:
    return Run(paused_sender(held=True, founded=True), {})


def founder_owes_what_a_paused_sender_brings_back() -> Run:
    return Run(paused_sender(held=False, founded=True), {"L3": "C", "L9": "C"})


def history_is_handed_on() -> Run:
    return Run(outlived_sender(), {}, crashed="B")


def nobody_delivered_it() -> Run:
    a, b = members()
    a.send(1).send(2)
    for each in (a, b):
        each.deliver("A", 2)
    return Run((a, b), {"L3": "AB", "L10": "A"})


def unicasts_in_order_unless_reported() -> Run:
    a, b = members()
    for n in (1, 2, 3):
        a.send(n, scope=UNICAST, target="B", site="NYC")
    a.unreach(1, "unknown", target="B", site="NYC")
    b.deliver("A", 3, scope=UNICAST)
    return Run((a, b), {"L3": "B", "X10": "A"})


def unicast_for_another() -> Run:
    a, b, c = members("ABC")
    a.send(1, scope=UNICAST, target="B", site="NYC")
    b.deliver("A", 1, scope=UNICAST)
    c.add(b.records[-1])
    return Run((a, b, c), {"L1": "C", "X10": "C"})


def out_of_band_for_another() -> Run:
    """A unicast of the same number and contents is another message."""
    a, b, c = members("ABC")
    a.send(1, scope=OOB, target="B", site="NYC").send(1, scope=UNICAST, target="C", site="NYC")
    b.deliver("A", 1, scope=OOB)
    c.deliver("A", 1, scope=UNICAST).deliver("A", 1, scope=OOB)
    for each in (a, b, c):
        each.records = [_of_equal_contents(record) for record in each.records]
    return Run((a, b, c), {"L1": "C", "X10": "C"})


def _of_equal_contents(record: records.Record) -> records.Record:
    return replace(record, digest=bytes(32)) if isinstance(record, records.Send | records.Deliver) else record


def one_id_for_two_views() -> Run:
    a, b, c = Told("NYC", "A").view("2A", "ABC"), Told("NYC", "B").view("2A", "ABC"), Told("NYC", "C").view("2A", "ACB")
    return Run((a, b, c), {"L4": "C"})


def in_another_view() -> Run:
    a, b = members()
    a.send(1).deliver("A", 1).view("2A", "AB")
    b.view("2A", "AB").deliver("A", 1)
    return Run((a, b), {"L6": "", "L7": "B"})


def settled_elsewhere() -> Run:
    """M2: messages that one half settled with its origin are not delivered by the other half after the merge."""
    a, b, c = members("ABC")
    a.send(1)
    for each in (a, b):
        each.deliver("A", 1).view("2A", "AB")
    c.view("2C", "C", lineage="2C")
    for each in (a, b, c):
        each.view("3A", "ABC", lineage="3A", subs=[("2A", "AB"), ("2C", "C")])
    c.deliver("A", 1)
    return Run((a, b, c), {"L6": ""})


def another_order() -> Run:
    a, b, c = members("ABC")
    a.send(1)
    b.send(1)
    for each in (a, b):
        each.deliver("A", 1).deliver("B", 1)
    c.deliver("B", 1).deliver("A", 1)
    return Run((a, b, c), {"L8": "C"})


def place_of_another() -> Run:
    a, b = members()
    a.send(1).send(2).send(3).deliver("A", 1, gseq=1).deliver("A", 2, gseq=2).deliver("A", 3, gseq=4)
    b.deliver("A", 1, gseq=1).deliver("A", 2, gseq=3).deliver("A", 3, gseq=2)
    return Run((a, b), {"L8": ""})


def merge_that_lies() -> Run:
    """It names a member that the part did not have, and does not count higher than its parts."""
    a, b = members()
    for each in (a, b):
        each.view("2A", "AB", subs=[("1A", "ABC"), ("2C", "C")])
    return Run((a, b), {"M1": "AB"})


def site_that_did_not_settle() -> Run:
    a, b = members()
    a.view("2A", "A")
    return Run((a, b), {"G4": "AB"})


RUNS: list[Callable[[], Run]] = [
    sound,
    never_sent,
    other_contents,
    cut_anew,
    used_twice,
    torn_send_of_a_crashed_origin,
    two_torn_sends,
    second_delivery,
    hole,
    late,
    nobody_delivered_it,
    joiner_has_it_in_its_state,
    joiner_owes_what_a_paused_sender_brings_back,
    founder_has_it_from_whom_it_met,
    founder_owes_what_a_paused_sender_brings_back,
    history_is_handed_on,
    unicasts_in_order_unless_reported,
    unicast_for_another,
    out_of_band_for_another,
    one_id_for_two_views,
    in_another_view,
    settled_elsewhere,
    merge_that_lies,
    another_order,
    place_of_another,
    site_that_did_not_settle,
]


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All runs in one audit, which agrees with the check."""
    directory = tmp_path_factory.mktemp("told")
    for number, tell in enumerate(RUNS, 1):
        run = tell()
        store_told(directory, run.told, number, run.crashed)
    return judge_both(spark, directory)


@pytest.mark.parametrize("number", range(1, len(RUNS) + 1), ids=[tell.__name__ for tell in RUNS])
def test_a_run_breaks_exactly_its_expected_invariants(judged: Judged, number: int) -> None:
    expected = RUNS[number - 1]().wrong
    found = judged.at(f"NYC{number}/")
    assert found.keys() == expected.keys()
    for invariant, names in expected.items():
        blamed = {where for name, where in judged.found if name == invariant and where.startswith(f"NYC{number}/")}
        assert not names or blamed == {f"NYC{number}/{name}({number:02x}{3 * name.encode().hex()})" for name in names}


def test_a_violation_states_its_messages_and_place(judged: Judged) -> None:
    number = RUNS.index(hole) + 1
    origin = f"NYC{number}/{number:02x}414141"
    assert judged.at(f"NYC{number}/B")["L3"] == [f"delivered {origin} all 3 without 2 before it"]
    number = RUNS.index(second_delivery) + 1
    assert judged.at(f"NYC{number}/A")["L2"] == [f"delivered NYC{number}/{number:02x}414141 all 1..3 again"]
