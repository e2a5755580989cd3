"""X1 to X7 and G1 to G4 by the transforms: two hand-written worlds, each with several faults at once.

Every origin of NYC is a separate story. The whole equals the result of `relay check` for the same journals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sitestack.journal import records
from tests.harness.journals import SITE, UNICAST, Told
from tests.spark.promises.auditing import Judged, judge_both, store_told

#: Origins in NYC; D and E are in SFO.
NAMES = "ABCFGHIJKLMN"
VECTOR = {"NYC": "1A", "SFO": "1D"}
EVERYBODY = f"NYC:{NAMES} SFO:DE"


def two_sites() -> dict[str, Told]:
    """All members in one global view."""
    told = {name: Told("NYC", name).view("1A", NAMES) for name in NAMES}
    told |= {name: Told("SFO", name).view("1D", "DE", lineage="1D") for name in "DE"}
    for each in told.values():
        each.global_view(VECTOR, EVERYBODY)
    return told


def send(told: dict[str, Told], origin: str, count: int) -> None:
    """Batches of one message, delivered in the own site."""
    for n in range(1, count + 1):
        told[origin].send(n)
        for name in NAMES:
            told[name].deliver(origin, n)


def arrive(each: Told, origin: str, numbers: Iterable[int]) -> None:
    for n in numbers:
        each.deliver(origin, n, site="NYC")


def streams() -> dict[str, Told]:
    """A story an origin, of how its messages come to SFO."""
    told = two_sites()
    d, e = told["D"], told["E"]
    for origin in NAMES:
        send(told, origin, 4)
    for each in (d, e):
        arrive(each, "A", (1, 2, 3, 4))  # as it should be
        arrive(each, "B", (1, 4))  # a hole
        arrive(each, "C", (1,))
        each.gap("C", 2, 3, "NYC")  # a hole that is covered
        arrive(each, "C", (4,))
        arrive(each, "I", (1,))
        each.gap("I", 2, 2, "NYC")  # a gap, and yet delivered
        arrive(each, "I", (2, 3, 4))
        each.baseline("J", 4, "NYC")
        arrive(each, "J", (4,))  # nothing is owed from before the baseline
        arrive(each, "L", (1, 2))  # a lost tail
    arrive(d, "F", (1, 4))
    d.gap("F", 2, 3, "NYC")  # too late
    e.gap("F", 2, 3, "NYC")  # too early
    arrive(e, "F", (1, 4))
    arrive(d, "G", (1, 2, 3, 4, 4))  # twice
    arrive(e, "G", (1, 2, 3, 4))
    arrive(d, "H", (1, 3, 2, 4))  # late
    arrive(e, "H", (1, 2, 3, 4))
    d.baseline("K", 3, "NYC")
    arrive(d, "K", (3, 4))
    arrive(e, "K", (1, 2, 3, 4))
    e.baseline("K", 3, "NYC")  # a baseline means nothing any more
    told["M"].unreach(4, "not_delivered", site="SFO")
    for each in (d, e):
        arrive(each, "M", (1, 2, 3))
    arrive(d, "N", (2, 3, 4))  # a lost beginning
    arrive(e, "N", (1, 2, 3, 4))
    told["A"].send(1, scope=SITE)
    for name in NAMES:
        told[name].deliver("A", 1, scope=SITE)
    for target in "DE":
        told["A"].send(1, scope=UNICAST, target=target, site="SFO")
    d.deliver("A", 1, scope=UNICAST, site="NYC")
    return told


def views() -> dict[str, Told]:
    """Relays and global views."""
    told = two_sites()
    a, b, c, d, e = (told[name] for name in "ABCDE")
    send(told, "A", 1)
    for each in (d, e):
        arrive(each, "A", (1,))
    last = e.records[-1]
    assert isinstance(last, records.Deliver)
    e.records[-1] = replace(last, via="local")  # came by no bridge
    for each in (d, e):
        each.role("relay", "1D")  # two relays of one epoch
    a.role("relay", "1A")
    a.global_view(VECTOR, f"NYC:{NAMES} SFO:D")  # not the union, and ends so
    b.global_view({"SFO": "1D", "NYC": "1A"}, f"SFO:DE NYC:{NAMES}")  # another order of members
    for each in (d, e):
        each.view("2D", "DE", lineage="1D")
    for vid in ("2D", "1D"):
        c.global_view({"NYC": "1A", "SFO": vid}, EVERYBODY)  # backwards
    for name, counter in (("F", "2D"), ("G", "3D")):
        told[name].global_view({"NYC": "1A", "SFO": counter}, EVERYBODY)  # ends so, like no other member
    return told


@pytest.fixture(scope="module")
def judged_streams(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    """All streams in one audit, which agrees with the check."""
    directory = tmp_path_factory.mktemp("streams")
    store_told(directory, list(streams().values()))
    return judge_both(spark, directory)


def of_origin(judged: Judged, origin: str) -> set[tuple[str, str]]:
    """Return (invariant, member) of the audit's findings about the messages of an origin."""
    about = f"NYC/{4 * origin.encode().hex()} all"
    return {(each.invariant, each.where[4]) for each in judged.audit.verdict.violations if about in each.what}


@pytest.mark.parametrize(
    ("origin", "wrong"),
    [
        ("A", set()),
        ("B", {("X1", "D"), ("X1", "E"), ("X5", "D"), ("X5", "E")}),
        ("C", set()),
        ("F", {("X1", "D"), ("X1", "E")}),
        ("G", {("X2", "D")}),
        ("H", {("X1", "D")}),
        ("I", {("X1", "D"), ("X1", "E")}),
        ("J", set()),
        ("K", set()),
        ("L", {("X5", "D"), ("X5", "E")}),
        ("M", set()),
        ("N", {("X5", "D"), ("L9", "D")}),
    ],
)
def test_each_origins_story_is_judged_by_itself(judged_streams: Judged, origin: str, wrong: set[tuple[str, str]]) -> None:
    assert of_origin(judged_streams, origin) == wrong


def test_a_unicast_across_sites_is_owed(judged_streams: Judged) -> None:
    assert judged_streams.at("NYC/A")["X10"] == [
        "NYC/41414141 unicast to 45454545 1 was sent; it was neither delivered nor reported"
    ]


def test_gaps_are_counted_at_each_receiver(judged_streams: Judged) -> None:
    # C: 2 numbers at D and E; F and I likewise, of which I's one is delivered and yet declared.
    assert judged_streams.audit.verdict.gaps == judged_streams.report.gaps == 10


def test_the_account_of_each_origin_balances(judged_streams: Judged) -> None:
    [account] = [row for row in judged_streams.audit.data.conservation if row["origin_site"] == "NYC"]
    assert account["sent"] == account["delivered"] + account["excused"] + account["missing"]
    assert (account["site"], account["missing"]) == ("SFO", 2 * 2 + 2 * 2 + 1)


@pytest.mark.long
def test_relays_and_global_views_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    store_told(tmp_path, list(views().values()))
    judged = judge_both(spark, tmp_path)
    assert {"X6", "X7", "G1", "G2", "G3", "G4"} == {invariant for invariant, _ in judged.found}
    assert {where[:5] for invariant, where in judged.found if invariant in ("X6", "X7")} == {"SFO/E"}
    assert "NYC/A" in {where[:5] for invariant, where in judged.found if invariant == "G1"}
    assert {where[:5] for invariant, where in judged.found if invariant == "G2"} >= {"NYC/B"}
    assert {where[:5] for invariant, where in judged.found if invariant == "G3"} == {"NYC/C"}
    ends = {each.where[:5] for each in judged.audit.verdict.violations if each.invariant == "G4" and ", NYC/A(" in each.what}
    assert ends == {"NYC/F", "NYC/G"}


@pytest.mark.long
@pytest.mark.parametrize("parted", [False, True])
def test_a_message_that_a_leaver_left_to_a_part_without_survivors_is_not_owed(
    spark: SparkSession, tmp_path: Path, parted: bool
) -> None:
    """A and then C left; B, which had parted from them, did not have their messages, or else had to deliver them."""
    a, b, c = (Told("NYC", name).view("1A", "ABC") for name in "ABC")
    d = Told("SFO", "D").view("1D", "D", lineage="1D")
    for each in (a, b, c, d):
        each.global_view(VECTOR, "NYC:ABC SFO:D")
    a.send(1).deliver("A", 1).add(records.Stop(0, 0, "left"))
    c.deliver("A", 1).view("2C", "C" if parted else "BC", lineage="2C" if parted else "1A").add(records.Stop(0, 0, "left"))
    b.view("2B" if parted else "2C", "B" if parted else "BC")
    for n in range(1, 5):  # after the leaves: A and C do not belong to those who are there at the end
        b.send(n).deliver("B", n)
        d.deliver("B", n, site="NYC")
    store_told(tmp_path, [a, b, c, d], crashed="AC")
    judged = judge_both(spark, tmp_path)
    assert ("X5" in {invariant for invariant, where in judged.found if where.startswith("SFO")}) is not parted


@pytest.mark.long
@pytest.mark.parametrize(
    ("reason", "reported", "reached_b", "owed"),
    [
        pytest.param(records.UNANSWERED, False, False, set()),
        ("left", False, False, {"X5"}),
        pytest.param("left", True, False, set()),
        pytest.param("left", True, True, {"X5"}),
    ],
)
def test_a_leavers_message_is_owed_if_answered_and_unreported_or_at_a_survivor(
    spark: SparkSession, tmp_path: Path, reason: str, reported: bool, reached_b: bool, owed: set[str]
) -> None:
    """The other member stays in the view for as long as it is judged; the last message was with the leaver alone, or not."""
    a, b = (Told("NYC", name).view("1A", "AB") for name in "AB")
    d = Told("SFO", "D").view("1D", "D", lineage="1D")
    for each in (a, b, d):
        each.global_view(VECTOR, "NYC:AB SFO:D")
    for n in (1, 2):
        a.send(n).deliver("A", n)
    if reported:
        a.unreach(2, "unknown")
    a.add(records.Stop(0, 0, reason))
    b.deliver("A", 1)
    if reached_b:
        b.deliver("A", 2)
    d.deliver("A", 1, site="NYC")
    for n in range(1, 5):  # after the leave: A does not belong to those who are there at the end
        b.send(n).deliver("B", n)
        d.deliver("B", n, site="NYC")
    store_told(tmp_path, [a, b, d], crashed="A")
    judged = judge_both(spark, tmp_path)
    assert {invariant for invariant, where in judged.found if where.startswith("SFO")} - {"G4"} == owed
