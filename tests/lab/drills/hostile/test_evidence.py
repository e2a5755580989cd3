"""Measurements under attack become a verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from relay_lab.drills.executor import Status
from relay_lab.drills.hostile.evidence import (
    Attack,
    Evidence,
    Lag,
    gather,
    hostile_faults,
    measure_lag,
    not_attacked,
    refusals,
)
from relay_lab.drills.hostile.target import AttackReport, Target, Victim, parse_report, parse_target
from relay_lab.drills.plan import Action, Drill, Expectation, Seat
from relay_lab.drills.verdict import MemberLog
from sitestack.model.address import Address, Physical
from sitestack.promises import Ranges

A, D = Seat("NYC", "A"), Seat("SFO", "D")
ONE, OTHER = Address(bytes(15) + b"1"), Address(bytes(15) + b"2")
MS = 1_000_000
STRICT = Expectation(steady_views=True, growth_mib_max=50, lag_times_max=1.5)


def attack(do: Any = "forge", sent: int = 100, refused: int = 5, **report: Any) -> Attack:
    action = Action(do, target="NYC", amount=100, for_s=1)
    return Attack(action, AttackReport({"x": sent} if sent else {}, **report), 0, 1, {"magic": refused} if refused else {})


def evidence(*attacks: Attack, lags: tuple[float, ...] = (), **changes: Any) -> Evidence:
    measured = tuple(
        [Lag(str(each.action), p99, p99, 9) for each, p99 in zip(attacks, lags or [1.0] * len(attacks), strict=True)]
    )
    return Evidence(attacks, (Lag("calm", 1.0, 2.0, 9),), measured, **changes)


def faults(found: Evidence, expected: Expectation = STRICT) -> list[str]:
    return list(hostile_faults(Drill(verdict=expected), found))


def test_an_attack_that_changes_nothing_is_no_fault() -> None:
    assert faults(evidence(attack())) == []
    assert list(not_attacked(evidence(attack()))) == []
    assert faults(Evidence()) == list(not_attacked(Evidence())) == []


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (evidence(attack(answered_bytes=7, answers=("7 bytes",))), "forge NYC 100: 7 bytes were answered to an attacker (7 b"),
        (evidence(attack(), views={A: 2}), "A of NYC installed 2 views while no member joined or left."),
        (evidence(attack(), suspicions={D: 1}), "D of SFO suspected 1 members while no member joined or left."),
        (evidence(attack(), growth={A: 51 << 20}), "The memory of A of NYC grew by 51.0 MiB; at most 50 are expected."),
        (evidence(attack(), lags=(3.1,)), "forge NYC 100: messages of other sites were 3.1 ms late at the 99th percentile; at"),
    ],
)
def test_each_effect_of_an_attack_is_reported(found: Evidence, fault: str) -> None:
    (told,) = faults(found)
    assert told.startswith(fault)


def test_a_measurement_without_an_expectation_is_no_fault() -> None:
    assert faults(evidence(attack(), lags=(99.0,), views={A: 2}, growth={A: 1 << 40}), Expectation()) == []


def test_a_flood_is_compared_with_the_same_flood_without_a_receiver() -> None:
    both = (attack("flood-unheard"), attack("flood"))
    assert faults(evidence(*both, lags=(10.0, 15.0))) == []
    assert len(faults(evidence(*both, lags=(10.0, 15.1)))) == 1


def test_other_attacks_are_compared_with_the_pauses_between_attacks() -> None:
    both = (attack("flood-unheard"), attack("forge"))
    assert faults(evidence(*both, lags=(1.0, 3.0))) == []
    assert len(faults(evidence(*both, lags=(99.0, 3.1)))) == 1


@pytest.mark.parametrize(
    ("which", "told"),
    [
        (attack(sent=0, told=("No member listens.",)), "forge NYC 100: nothing was sent (No member listens.)."),
        (attack(sent=0), "forge NYC 100: nothing was sent (no reason is known)."),
        (attack(refused=0), "forge NYC 100: no member refused anything, so perhaps nothing arrived."),
        (attack("flood", sent=70), "flood NYC 100: no more than 70 packets a second were sent."),
        (attack("flood-unheard", sent=70), "flood-unheard NYC 100: no more than 70 packets a second were sent."),
    ],
)
def test_an_attack_that_did_not_take_place_is_reported(which: Attack, told: str) -> None:
    assert list(not_attacked(evidence(which))) == [told]


def test_idle_connections_and_floods_without_a_receiver_need_no_refusal() -> None:
    quiet = (attack("idle", refused=0), attack("flood-unheard", refused=0))
    assert list(not_attacked(evidence(*quiet))) == []


def log(seat: Seat, uuid: Address, sends: dict[int, int], relayed: list[tuple[Address, int, int, int]]) -> MemberLog:
    return MemberLog(seat.site, seat.name, uuid, False, Ranges(), {}, {}, 0, 9, "", sends=sends, relayed=relayed)


def test_lag_is_from_sending_to_delivery_at_the_other_site_within_the_period() -> None:
    sender = log(A, ONE, {1: 0, 11: 10 * MS, 21: 20 * MS}, [])
    receiver = log(D, OTHER, {}, [(ONE, 1, 50 * MS, 10), (ONE, 11, 13 * MS, 99), (ONE, 21, 29 * MS, 1)])
    assert measure_lag([sender, receiver], 5 * MS, 30 * MS, "x") == Lag("x", 3.0, 3.0, 100)
    assert measure_lag([sender, receiver], 0, 30 * MS, "x").p99 == 50.0
    assert measure_lag([], 0, 1, "x") == Lag("x", 0.0, 0.0, 0)


def test_calm_periods_are_between_attacks_and_not_right_after_one() -> None:
    second = 1_000_000_000
    attacks = [replace(attack(), began_ns=begin * second, ended_ns=end * second) for begin, end in ((4, 8), (9, 11), (15, 16))]
    sent = {at + 1: at * second + MS for at in range(20)}
    sender = log(A, ONE, sent, [])
    receiver = log(D, OTHER, {}, [(ONE, first, at + MS, 1) for first, at in sent.items()])
    found = gather(attacks, [sender, receiver], (2 * second, 20 * second), {}, ({}, {}))
    assert [each.messages for each in found.calm] == [2, 3, 3]


def status(views: int, suspicions: int, **drops: int) -> Status:
    return {"views": views, "drops": drops, "statistics": {"stack": {"failure_detection": {"suspicions": suspicions}}}}


def test_views_and_suspicions_count_from_the_beginning_of_the_load() -> None:
    found = gather([attack()], [], (0, 9), {A: 5}, ({A: status(2, 1)}, {A: status(3, 1), D: status(9, 9)}))
    assert (found.views, found.suspicions, found.growth) == ({A: 1}, {A: 0}, {A: 5})
    assert found.to_json()["views"] == 1
    assert gather([], [], (0, 9), {}, ({}, {})) == Evidence()


def test_refusals_are_counted_by_reason_over_all_members() -> None:
    before = {A: status(0, 0, magic=2)}
    after = {A: status(0, 0, magic=5, version=1), D: status(0, 0, magic=1)}
    assert refusals(before, after) == {"magic": 4, "version": 1}


def test_a_target_and_a_report_arrive_as_they_were() -> None:
    victims = (Victim("NYC", "A", "198.18.0.16", "ab" * 16, 7000),)
    target = Target("forge", "NYC", Physical("239.1.2.3", 7600), victims, (), 3, "cd" * 16, "198.18.0.1", True, 6.0, 1000.0)
    assert parse_target(target.to_json()) == target
    assert parse_target(Target().to_json()) == Target()
    report = AttackReport({"garbage": 5}, 7, ("x",), 1.5, 9, ("Told.",))
    assert parse_report(report.to_json()) == report


def test_an_invalid_target_is_refused() -> None:
    with pytest.raises(ValueError, match="seconds"):
        parse_target('{"seconds": "long"}')
